#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/own_kind.hpp"

namespace orthornn {

/// What `OwnKind::registered` returns.
template <class Kind>
std::vector<OwnKind<Kind>>& registered_kinds() {
  static std::vector<OwnKind<Kind>> kinds;
  return kinds;
}

template <class Kind>
const std::vector<OwnKind<Kind>>& OwnKind<Kind>::registered() {
  return registered_kinds<Kind>();
}

/// Whether the struct of these options is registered.
template <class Kind>
bool is_registered(const OwnKind<Kind>& kind) {
  const auto type_of = [](const OwnKind<Kind>& options) -> const std::type_info& {
    const Kind& erased = *options.operator->();
    return typeid(erased);
  };
  return std::ranges::any_of(kind.registered(),
                             [&](const auto& known) { return type_of(known) == type_of(kind); });
}

/// Throws ValueError for a name or keys that a file could not hold. `tag`: the key of the name.
template <class Kind>
void check_file_names(const char* what, const OwnKind<Kind>& kind, const char* tag) {
  const auto refuse = [&](const std::string& text) {
    throw ValueError(
        fmt::format("the {} '{}' has the name or key '{}'; expected different ones of letters, "
                    "digits, - and _, and none '{}'",
                    what, kind.name, text, tag));
  };
  std::set<std::string> seen{tag};
  const auto check = [&](const std::string& text) {
    const bool plain = std::ranges::all_of(text, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
             c == '_';
    });
    if (text.empty() || !plain) refuse(text);
  };
  check(kind.name);
  for (const OwnField& field : kind->copy()->fields()) {
    check(field.key);
    if (!seen.insert(field.key).second) refuse(field.key);
  }
}

/// Adds a kind to those of the variant. The same struct again changes nothing. Throws ValueError for a name
/// that another one has, and as `check_file_names`. `what`: "layer".
template <class Variant, class Kind>
void register_kind(const char* what, const OwnKind<Kind>& kind, const char* tag = "kind") {
  if (is_registered(kind)) return;
  check_file_names(what, kind, tag);
  if (find_name<Variant>(kind.name)) {
    throw ValueError(fmt::format("the name '{}' is that of another {}; expected none of {}", kind.name, what,
                                 one_of(names_of<Variant>())));
  }
  registered_kinds<Kind>().push_back(kind);
}

/// Throws ValueError for a kind that a file could not name. `what`: "layer".
template <class Kind>
void check_registered(const char* what, const OwnKind<Kind>& kind) {
  if (is_registered(kind)) return;
  throw ValueError(fmt::format("the {} '{}' is of a kind that is not registered; call register_{} first",
                               what, kind.name, what));
}

}  // namespace orthornn

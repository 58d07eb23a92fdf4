#pragma once
// Options as JSON, by their fields. A member is a number, a truth value, text, the name of an enum's value,
// an object of an options type or of a variant of them, or an array of such variants; an optional that is
// unset is left out. An alternative of a variant has its name under "kind".

#include <algorithm>
#include <memory>

#include "core/checked_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/own_kind.hpp"

namespace orthornn {

/// An object of the fields, with the options' name, if they have one, under `tag`.
template <HasFields Options>
Json json_object(const Options& options, const char* tag = "kind");
template <class Kind>
Json json_object(const OwnKind<Kind>& options, const char* tag = "kind");

template <class Value>
Json json_value(const Value& value) {
  if constexpr (HasFields<Value>) {
    return json_object(value);
  } else if constexpr (IsVariant<Value>) {
    return std::visit([](const auto& chosen) { return json_object(chosen); }, value);
  } else if constexpr (is_a<Value, std::vector>) {
    Json array = Json::array();
    for (const auto& element : value) array.push_back(json_value(element));
    return array;
  } else if constexpr (HasNames<Value>) {
    return name_of(value);
  } else {
    return value;
  }
}

/// An optional that is unset is left out.
template <class Value>
void write_member(Json& object, const char* key, const Value& value) {
  if constexpr (is_a<Value, std::optional>) {
    if (value) object[key] = *value;
  } else {
    object[key] = json_value(value);
  }
}
inline void write_member(Json& object, const char* key, const NamedMember& value) {
  object[key] = value.get();
}

template <HasFields Options>
Json json_object(const Options& options, const char* tag) {
  Json json = Json::object();
  if constexpr (requires { Options::name; }) json[tag] = Options::name;
  Options::fields([&](const char* key, auto member, const Domain&, const char*) {
    write_member(json, key, options.*member);
  });
  return json;
}

/// Calls visit(field, member) for the members of options of an own kind.
template <class Kind, class Visit>
void each_member(OwnOptions<Kind>& options, const Visit& visit) {
  for (OwnField& field : options.fields()) {
    std::visit(
        [&](auto& member) {
          if constexpr (std::is_pointer_v<std::decay_t<decltype(member)>>)
            visit(field, *member);
          else
            visit(field, member);
        },
        field.member);
  }
}

template <class Kind>
Json json_object(const OwnKind<Kind>& options, const char* tag) {
  Json json{{tag, options.name}};
  each_member(*options->copy(),
              [&](const OwnField& field, const auto& member) { write_member(json, field.key, member); });
  return json;
}

/// What becomes of a field that an object, or one within it, does not have.
enum class MissingField { is_an_error, has_its_default };

/// Overwrites the fields by those of an object. Throws ValueError, naming the key, what was expected and what
/// was found.
template <HasFields Options>
void read_fields(const Json& object, Options& options, MissingField missing = MissingField::is_an_error);
template <class Kind>
void read_fields(const Json& object, OwnKind<Kind>& options, MissingField missing);

/// Options have a "kind" that is not known and that another program may have registered.
class UnknownKind : public ValueError {
 public:
  using ValueError::ValueError;
};

/// The value whose name the object has under `key`. Throws ValueError naming the known ones.
template <HasNames Type>
Type named_member(const Json& object, const char* key) {
  const std::optional<Type> found = find_name<Type>(text_member(object, key));
  if (!found) refuse_member(key, one_of(names_of<Type>()), object.at(key));
  return *found;
}

/// The alternative that the object has under "kind". Throws UnknownKind as well.
template <class... Options>
void read_alternative(const Json& object, std::variant<Options...>& value,
                      MissingField missing = MissingField::is_an_error) {
  using Variant = std::variant<Options...>;
  if constexpr (IsOpen<Variant>) {
    if (!find_name<Variant>(text_member(object, "kind")))
      throw UnknownKind(unexpected_member("kind", one_of(names_of<Variant>()), object.at("kind")));
  }
  value = named_member<Variant>(object, "kind");
  std::visit([&](auto& options) { read_fields(object, options, missing); }, value);
}

template <class Value>
void read_member(const Json& object, const char* key, Value& value, MissingField missing) {
  if constexpr (HasFields<Value>) {
    read_fields(object_member(object, key), value, missing);
  } else if constexpr (IsVariant<Value>) {
    read_alternative(object_member(object, key), value, missing);
  } else if constexpr (is_a<Value, std::vector>) {
    value.clear();
    for (const Json& element : array_member(object, key))
      read_alternative(element, value.emplace_back(), missing);
  } else if constexpr (is_a<Value, std::optional>) {
    read_member(object, key, value.emplace(), missing);
  } else if constexpr (HasNames<Value>) {
    value = named_member<Value>(object, key);
  } else if constexpr (std::same_as<Value, bool>) {
    value = boolean_member(object, key);
  } else if constexpr (std::same_as<Value, double>) {
    value = real_member(object, key);
  } else if constexpr (std::same_as<Value, std::uint64_t>) {
    value = unsigned_member(object, key);
  } else if constexpr (std::same_as<Value, std::string>) {
    value = text_member(object, key);
  } else {
    static_assert(std::same_as<Value, Index>, "JSON does not know fields of this type");
    value = integer_member(object, key);
  }
}

inline void read_member(const Json& object, const char* key, NamedMember& value, MissingField) {
  const std::string name = text_member(object, key);
  if (std::ranges::find(value.names, name) == value.names.end())
    refuse_member(key, one_of(value.names), object.at(key));
  value.set(name);
}

/// `read_member` and `check_field`, where the object has the field or needs it. An optional that is unset is
/// left out of an object, so it becomes unset, whatever its default.
template <class Value>
void read_field(const Json& object, const char* key, Value& value, const Domain& domain,
                MissingField missing) {
  const bool needed =
      missing == MissingField::is_an_error && !domain.may_be_missing && !is_a<Value, std::optional>;
  if (!needed && object.is_object() && !object.contains(key)) {
    if constexpr (is_a<Value, std::optional>) {
      if (missing == MissingField::is_an_error && !domain.may_be_missing) value.reset();
    }
    return;
  }
  read_member(object, key, value, missing);
  check_field("", key, value, domain);
}

template <HasFields Options>
void read_fields(const Json& object, Options& options, MissingField missing) {
  Options::fields([&](const char* key, auto member, const Domain& domain, const char*) {
    read_field(object, key, options.*member, domain, missing);
  });
}

template <class Kind>
void read_fields(const Json& object, OwnKind<Kind>& options, MissingField missing) {
  const std::shared_ptr<Kind> read = options->copy();
  each_member(*read, [&](const OwnField& field, auto& member) {
    read_field(object, field.key, member, field.domain, missing);
  });
  options = OwnKind<Kind>(read);
}

}  // namespace orthornn

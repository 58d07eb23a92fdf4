#pragma once
// How options describe themselves. Every options type lists its fields once, beside them, and an alternative
// of a variant has a name:
//
//   struct Cwy {
//     static constexpr const char* name = "cwy";
//     Index reflections = 0;
//     static void fields(auto&& visit) {
//       visit("reflections", &Cwy::reflections, domain::not_negative, "reflections L, 1 to N; 0 for N");
//     }
//   };
//
// visit(key, pointer to member, domain, help); the default is the member's initialiser. The JSON of model
// files, config.toml, the command line and messages follow from these lists. Files have the keys and names,
// so they stay. The order of fields, of alternatives and of an enum's values means nothing.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace orthornn {

/// Which numbers a field may hold. Fields of other kinds ignore it, but for `may_be_missing`.
struct Domain {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_included = true;
  bool high_included = true;
  /// Model files from before there was this field do not have it, and mean its default.
  bool may_be_missing = false;

  /// False for a number that is not finite, and for one that becomes an excluded end where it is rounded to
  /// T: 1 - 1e-9 is 1 in float.
  template <class T = double>
  bool contains(double value) const {
    const auto rounded = static_cast<double>(static_cast<T>(value));
    return std::isfinite(value) && value >= low && value <= high && (low_included || rounded > low) &&
           (high_included || rounded < high);
  }
  /// What is expected in place of `found`: "a number above 0", "a whole number from 0 to 64".
  std::string text(double found, bool whole) const;
};

namespace domain {
inline constexpr Domain any{};
inline constexpr Domain added_later{.may_be_missing = true};
inline constexpr Domain count{.low = 1};
inline constexpr Domain not_negative{.low = 0};
inline constexpr Domain positive{.low = 0, .low_included = false};
inline constexpr Domain share{.low = 0, .high = 1};
inline constexpr Domain below_one{.low = 0, .high = 1, .high_included = false};
}  // namespace domain

template <class Options>
concept HasFields = requires {
  Options::fields([](auto&&...) {});
};

/// Is Type a Template<..>?
template <class Type, template <class...> class Template>
inline constexpr bool is_a = false;
template <template <class...> class Template, class... Arguments>
inline constexpr bool is_a<Template<Arguments...>, Template> = true;

template <class Value>
inline constexpr bool is_number =
    std::same_as<Value, std::int64_t> || std::same_as<Value, std::uint64_t> || std::same_as<Value, double>;

namespace detail {
template <class... Options>
void take_variant(const std::variant<Options...>&);
}  // namespace detail
/// A std::variant, or a type derived from one, whose alternatives can hold values of that type.
template <class Type>
concept IsVariant = requires(const Type& value) {
  detail::take_variant(value);
};

/// The last alternative of a variant may stand for all kinds that a program registers (core/own_kind.hpp).
template <class Type>
concept IsOwnKind = requires {
  Type::registered();
};

/// The alternatives of a variant that have their names at compile time, as the types of a tuple.
template <class... Options>
using NamedAlternatives = decltype(std::tuple_cat(
    std::declval<std::conditional_t<IsOwnKind<Options>, std::tuple<>, std::tuple<Options>>>()...));

/// Something to choose, by its name in files, on the command line and in messages.
template <class Type>
struct Choice {
  const char* name;
  Type value;
};

/// What there is to choose. An enum has its table in a specialisation beside it; a variant has the names of
/// its alternatives, with their defaults.
template <class Type>
struct Names;
namespace detail {
template <class Type, class... Options>
struct NamesOfAlternatives {
  using Last = std::tuple_element_t<sizeof...(Options) - 1, std::tuple<Options...>>;
  inline static const std::vector<Choice<Type>> list = std::apply(
      []<class... Named>(const Named&... defaults) {
        return std::vector<Choice<Type>>{{Named::name, Type(defaults)}...};
      },
      NamedAlternatives<Options...>());
};
template <class Type, class... Options>
NamesOfAlternatives<Type, Options...> names_of_alternatives(const std::variant<Options...>&);
}  // namespace detail
template <IsVariant Type>
struct Names<Type> : decltype(detail::names_of_alternatives<Type>(std::declval<const Type&>())) {};
template <class Type>
concept HasNames = requires {
  Names<Type>::list;
};
/// A variant to which programs add alternatives by registering them.
template <class Type>
concept IsOpen = IsVariant<Type> && IsOwnKind<typename Names<Type>::Last>;

/// All names, those of registered kinds last.
template <HasNames Type>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& choice : Names<Type>::list) names.emplace_back(choice.name);
  if constexpr (IsOpen<Type>) {
    for (const auto& own : Names<Type>::Last::registered()) names.emplace_back(own.name);
  }
  return names;
}

template <HasNames Enum>
requires(!IsVariant<Enum>) std::string name_of(Enum value) {
  for (const auto& choice : Names<Enum>::list) {
    if (choice.value == value) return choice.name;
  }
  return {};
}
template <class... Options>
std::string name_of(const std::variant<Options...>& options) {
  return std::visit([](const auto& chosen) { return chosen.name; }, options);
}

/// The value, or the alternative with its defaults, of that name; none for an unknown name.
template <HasNames Type>
std::optional<Type> find_name(const std::string& name) {
  for (const auto& choice : Names<Type>::list) {
    if (choice.name == name) return choice.value;
  }
  if constexpr (IsOpen<Type>) {
    for (const auto& own : Names<Type>::Last::registered()) {
      if (own.name == name) return Type(own);
    }
  }
  return std::nullopt;
}

/// "a, b or c"
std::string one_of(const std::vector<std::string>& names);

[[noreturn]] void refuse_name(const std::string& name, const std::vector<std::string>& known);
/// What `find_name` finds. Throws ValueError naming the known ones.
template <HasNames Type>
Type parse(const std::string& name) {
  const std::optional<Type> found = find_name<Type>(name);
  if (!found) refuse_name(name, names_of<Type>());
  return *found;
}

/// "OWNER: KEY is VALUE; expected ..", or "'KEY' is .." without an owner.
template <class Number>
[[noreturn]] void refuse_number(const char* owner, const char* key, Number value, const Domain& domain);

/// Throws ValueError as `refuse_number` for a number outside its domain, also where it only leaves the domain
/// when it is rounded to T; other values are fine.
template <class T = double, class Value>
void check_field(const char* owner, const char* key, const Value& value, const Domain& domain) {
  if constexpr (is_a<Value, std::optional>) {
    if (value) check_field<T>(owner, key, *value, domain);
  } else if constexpr (is_number<Value>) {
    if (!domain.contains<T>(static_cast<double>(value))) refuse_number(owner, key, value, domain);
  }
}

/// `check_field` for every field.
template <class T = double, HasFields Options>
void check_fields(const char* owner, const Options& options) {
  Options::fields([&](const char* key, auto member, const Domain& domain, const char*) {
    check_field<T>(owner, key, options.*member, domain);
  });
}

}  // namespace orthornn

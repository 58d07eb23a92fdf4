#pragma once
// How options describe themselves (HasFields) and what may be chosen by name (Names).

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

/// Which numbers a field may hold. Fields that are no numbers read `may_be_missing` alone.
struct Domain {
  /// Lower end of the range.
  double low = -std::numeric_limits<double>::infinity();
  /// Upper end of the range.
  double high = std::numeric_limits<double>::infinity();
  /// Whether `low` itself is allowed.
  bool low_included = true;
  /// Whether `high` itself is allowed.
  bool high_included = true;
  /// Whether a file may lack the field: files from before the field existed mean its default.
  bool may_be_missing = false;

  /// Whether the range has this number. A number that is not finite is outside, and so is one that becomes an
  /// excluded end when it is rounded to T: 1 - 1e-9 is 1 in float.
  template <class T = double>
  bool contains(double value) const {
    const auto rounded = static_cast<double>(static_cast<T>(value));
    return std::isfinite(value) && value >= low && value <= high && (low_included || rounded > low) &&
           (high_included || rounded < high);
  }
  /// Words for messages that say what is expected in place of `found`: "a number above 0", "a whole number
  /// from 0 to 64".
  std::string text(double found, bool whole) const;
};

/// Ranges that many fields have.
namespace domain {
/// Any finite number.
inline constexpr Domain any{};
/// Any finite number, in a field that files of earlier versions lack.
inline constexpr Domain added_later{.may_be_missing = true};
/// Numbers from 1 on.
inline constexpr Domain count{.low = 1};
/// Numbers from 0 on.
inline constexpr Domain not_negative{.low = 0};
/// Numbers above 0.
inline constexpr Domain positive{.low = 0, .low_included = false};
/// Numbers from 0 to 1.
inline constexpr Domain share{.low = 0, .high = 1};
/// Numbers from 0 to below 1.
inline constexpr Domain below_one{.low = 0, .high = 1, .high_included = false};
}  // namespace domain

/// Options that list their fields. Every options type lists its fields once, beside them; an alternative of a
/// variant also has a name:
///
///     struct Cwy {
///       static constexpr const char* name = "cwy";
///       Index reflections = 0;
///       static void fields(auto&& visit) {
///         visit("reflections", &Cwy::reflections, domain::not_negative, "reflections L, 1 to N; 0 for N");
///       }
///     };
///
/// The arguments are visit(key, pointer to member, domain, help); the default is the member's initialiser.
/// The JSON of model files, config.toml, the command line and messages follow from these lists. Keys and
/// names are in users' files, so they must not change. The order of fields, of alternatives and of an enum's
/// values means nothing.
template <class Options>
concept HasFields = requires {
  Options::fields([](auto&&...) {});
};

/// Whether Type is a Template<..>.
template <class Type, template <class...> class Template>
inline constexpr bool is_a = false;
/// Whether Type is a Template<..>: yes.
template <template <class...> class Template, class... Arguments>
inline constexpr bool is_a<Template<Arguments...>, Template> = true;

/// Whether a field of type Value is a number, and so has a domain.
template <class Value>
inline constexpr bool is_number =
    std::same_as<Value, std::int64_t> || std::same_as<Value, std::uint64_t> || std::same_as<Value, double>;

namespace detail {
template <class... Options>
void take_variant(const std::variant<Options...>&);
}  // namespace detail
/// A std::variant, or a type derived from one. LayerOptions is derived, so that its alternatives can hold
/// LayerOptions.
template <class Type>
concept IsVariant = requires(const Type& value) {
  detail::take_variant(value);
};

/// Whether a type is the last alternative of a variant that stands for all kinds a program registers
/// (core/own_kind.hpp).
template <class Type>
concept IsOwnKind = requires {
  Type::registered();
};

/// The alternatives of a variant that have their names at compile time, as the types of a tuple.
template <class... Options>
using NamedAlternatives = decltype(std::tuple_cat(
    std::declval<std::conditional_t<IsOwnKind<Options>, std::tuple<>, std::tuple<Options>>>()...));

/// A value that can be chosen by a name.
template <class Type>
struct Choice {
  const char* name;  ///< Name in files, on the command line and in messages.
  Type value;        ///< Value that the name stands for.
};

/// The choices for a type, `Names<Type>::list`, an array of Choice. An enum has its table in a specialisation
/// beside it; a variant has the names of its alternatives, with their defaults.
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
/// A type whose values can be chosen by name.
template <class Type>
concept HasNames = requires {
  Names<Type>::list;
};
/// A variant to which programs add alternatives by registering them.
template <class Type>
concept IsOpen = IsVariant<Type> && IsOwnKind<typename Names<Type>::Last>;

/// All names of a type's choices, in the order of their table; names of registered kinds come last.
template <HasNames Type>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& choice : Names<Type>::list) names.emplace_back(choice.name);
  if constexpr (IsOpen<Type>) {
    for (const auto& own : Names<Type>::Last::registered()) names.emplace_back(own.name);
  }
  return names;
}

/// Name of an enum's value; empty for a value that is not in the table.
template <HasNames Enum>
requires(!IsVariant<Enum>) std::string name_of(Enum value) {
  for (const auto& choice : Names<Enum>::list) {
    if (choice.value == value) return choice.name;
  }
  return {};
}
/// Name of the alternative that a variant holds.
template <class... Options>
std::string name_of(const std::variant<Options...>& options) {
  return std::visit([](const auto& chosen) { return chosen.name; }, options);
}

/// The value, or the alternative with its defaults, of a name; nothing for an unknown name.
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

/// The names as a list in words: "a, b or c".
std::string one_of(const std::vector<std::string>& names);

/// Throws ValueError for an unknown name; the message lists the known names.
[[noreturn]] void refuse_name(const std::string& name, const std::vector<std::string>& known);
/// The value, or the alternative with its defaults, of a name. Throws ValueError for an unknown name; the
/// message lists the known names.
template <HasNames Type>
Type parse(const std::string& name) {
  const std::optional<Type> found = find_name<Type>(name);
  if (!found) refuse_name(name, names_of<Type>());
  return *found;
}

/// Throws ValueError "OWNER: KEY is VALUE; expected ..", or "'KEY' is .." where the owner is empty.
template <class Number>
[[noreturn]] void refuse_number(const char* owner, const char* key, Number value, const Domain& domain);

/// Throws ValueError as `refuse_number` for a number outside its domain, or one that leaves the domain when
/// it is rounded to T. Values that are no numbers pass.
template <class T = double, class Value>
void check_field(const char* owner, const char* key, const Value& value, const Domain& domain) {
  if constexpr (is_a<Value, std::optional>) {
    if (value) check_field<T>(owner, key, *value, domain);
  } else if constexpr (is_number<Value>) {
    if (!domain.contains<T>(static_cast<double>(value))) refuse_number(owner, key, value, domain);
  }
}

/// Checks every field of the options as `check_field` does.
template <class T = double, HasFields Options>
void check_fields(const char* owner, const Options& options) {
  Options::fields([&](const char* key, auto member, const Domain& domain, const char*) {
    check_field<T>(owner, key, options.*member, domain);
  });
}

}  // namespace orthornn

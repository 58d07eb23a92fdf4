#pragma once
// Options as JSON, by their fields. A member is a number, a truth value, text, the name of an enum's value,
// an object of an options type or of a variant of them, or an array of such variants; an optional that is
// unset is left out. An alternative of a variant has its name under "kind".

#include "core/checked_json.hpp"
#include "orthornn/core/fields.hpp"

namespace orthornn {

/// An object of the fields, with the options' name, if they have one, under `tag`.
template <HasFields Options>
Json json_object(const Options& options, const char* tag = "kind");

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

template <HasFields Options>
Json json_object(const Options& options, const char* tag) {
  Json json = Json::object();
  if constexpr (requires { Options::name; }) json[tag] = Options::name;
  Options::fields([&](const char* key, auto member, const Domain&, const char*) {
    const auto& value = options.*member;
    if constexpr (is_a<std::decay_t<decltype(value)>, std::optional>) {
      if (value) json[key] = *value;
    } else {
      json[key] = json_value(value);
    }
  });
  return json;
}

/// What becomes of a field that an object, or one within it, does not have.
enum class MissingField { is_an_error, has_its_default };

/// Overwrites the fields by those of an object. Throws ValueError, naming the key, what was expected and what
/// was found.
template <HasFields Options>
void read_fields(const Json& object, Options& options, MissingField missing = MissingField::is_an_error);

/// The value whose name the object has under `key`. Throws ValueError naming the known ones.
template <HasNames Type>
Type named_member(const Json& object, const char* key) {
  const Type* found = find_name<Type>(text_member(object, key));
  if (found == nullptr) refuse_member(key, one_of(names_of<Type>()), object.at(key));
  return *found;
}

/// The alternative that the object has under "kind".
template <HasFields... Options>
void read_alternative(const Json& object, std::variant<Options...>& value,
                      MissingField missing = MissingField::is_an_error) {
  value = named_member<std::variant<Options...>>(object, "kind");
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

template <HasFields Options>
void read_fields(const Json& object, Options& options, MissingField missing) {
  Options::fields([&](const char* key, auto member, const Domain& domain, const char*) {
    auto& value = options.*member;
    using Value = std::decay_t<decltype(value)>;
    const bool needed =
        missing == MissingField::is_an_error && !domain.may_be_missing && !is_a<Value, std::optional>;
    if (!needed && object.is_object() && !object.contains(key)) return;
    read_member(object, key, value, missing);
    check_field("", key, value, domain);
  });
}

}  // namespace orthornn

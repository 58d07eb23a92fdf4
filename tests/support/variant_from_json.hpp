#pragma once

#include <string>

#include "core/fields_json.hpp"

namespace orthornn::testing {

/// The alternative of a variant, such as LayerOptions, that a JSON object describes. Throws as
/// `read_alternative`.
template <class Variant>
Variant variant_from_json(const std::string& text, MissingField missing = MissingField::is_an_error) {
  Variant options;
  read_alternative(parse_json(text), options, missing);
  return options;
}

}  // namespace orthornn::testing

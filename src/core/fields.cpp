#include "orthornn/core/fields.hpp"

#include <fmt/format.h>

#include "orthornn/core/error.hpp"

namespace orthornn {

std::string Domain::text(double found, bool whole) const {
  const char* number = whole               ? "a whole number"
                       : contains(found)   ? "a number that rounded to 32 bits is still"
                       : std::isinf(found) ? "a finite number"
                                           : "a number";
  if (low == high) return fmt::format("{}", low);
  if (std::isfinite(high) && !high_included && !low_included)
    return fmt::format("{} above {} and below {}", number, low, high);
  if (std::isfinite(high) && !high_included) return fmt::format("{} in [{}, {})", number, low, high);
  if (std::isfinite(high) && !low_included) return fmt::format("{} above {} and up to {}", number, low, high);
  if (std::isfinite(high)) return fmt::format("{} from {} to {}", number, low, high);
  if (!std::isfinite(low)) return number;
  return low_included ? fmt::format("{}, at least {}", number, low) : fmt::format("{} above {}", number, low);
}

std::string one_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

void refuse_name(const std::string& name, const std::vector<std::string>& known) {
  throw ValueError(fmt::format("unknown name '{}'; expected {}", name, one_of(known)));
}

template <class Number>
void refuse_number(const char* owner, const char* key, Number value, const Domain& domain) {
  const std::string what = *owner != 0 ? fmt::format("{}: {}", owner, key) : fmt::format("'{}'", key);
  throw ValueError(fmt::format("{} is {}; expected {}", what, value,
                               domain.text(static_cast<double>(value), !std::same_as<Number, double>)));
}
template void refuse_number(const char*, const char*, std::int64_t, const Domain&);
template void refuse_number(const char*, const char*, std::uint64_t, const Domain&);
template void refuse_number(const char*, const char*, double, const Domain&);

}  // namespace orthornn

#include "orthornn/core/precision.hpp"

#include <fmt/format.h>

#include "orthornn/core/error.hpp"

namespace orthornn {

std::string name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
  }
  return {};
}

Precision parse_precision(const std::string& name) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    if (name == name_of(precision)) return precision;
  }
  throw ValueError(fmt::format("unknown precision '{}'; expected fp32, tf32 or bf16", name));
}

}  // namespace orthornn

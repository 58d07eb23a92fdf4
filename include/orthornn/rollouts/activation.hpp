#pragma once

#include "orthornn/core/fields.hpp"
#include "orthornn/scalar/activation.hpp"

namespace orthornn {

template <>
struct Names<Activation> {
  using enum Activation;
  static constexpr Choice<Activation> list[] = {
      {"tanh", tanh}, {"relu", relu}, {"abs", abs}, {"modrelu", modrelu}, {"identity", identity}};
};

}  // namespace orthornn

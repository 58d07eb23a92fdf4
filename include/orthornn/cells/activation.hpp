#pragma once

#include "orthornn/core/fields.hpp"

namespace orthornn {

/// sigma of h_t = sigma(a_t): tanh, relu, |a|, sign(a) relu(|a| + m) with a learned m [N] (Arjovsky, Shah and
/// Bengio, ICML 2016, for real numbers), or none.
enum class Activation { tanh, relu, abs, modrelu, identity };
template <>
struct Names<Activation> {
  using enum Activation;
  static constexpr Choice<Activation> list[] = {
      {"tanh", tanh}, {"relu", relu}, {"abs", abs}, {"modrelu", modrelu}, {"identity", identity}};
};

}  // namespace orthornn

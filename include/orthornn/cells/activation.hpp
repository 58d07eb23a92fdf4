#pragma once

#include <string>

namespace orthornn {

/// sigma of h_t = sigma(a_t): tanh, relu, |a|, sign(a) relu(|a| + m) with a learned m [N] (Arjovsky, Shah and
/// Bengio, ICML 2016, for real numbers), or none.
enum class Activation { tanh, relu, abs, modrelu, identity };

std::string name_of(Activation activation);
/// Throws ValueError naming the known ones.
Activation parse_activation(const std::string& name);

}  // namespace orthornn

#pragma once

#include <cstdint>
#include <vector>

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/language_task.hpp"

namespace orthornn {

/// Symbols that a language has, and answers.
Index symbols_of(Language language);
Index answers_of(Language language);

/// A length between the two, odd for Language::modular, where an even one becomes one less.
Index draw_length(Language language, Index shortest, Index longest, RandomStream& random);

/// Writes a random sequence of `length` >= 1 symbols, odd for Language::modular, and returns its answer.
std::int32_t draw_sentence(Language language, Index length, RandomStream& random,
                           std::vector<std::int32_t>& symbols);

}  // namespace orthornn

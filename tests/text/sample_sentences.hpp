#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orthornn::testing {

/// Views, as the tokenizers take them.
inline std::vector<std::string_view> views(const std::vector<std::string>& sentences) {
  return {sentences.begin(), sentences.end()};
}

/// Sentences of a subject, a verb and an object, 1000 different ones.
inline std::vector<std::string> sample_sentences() {
  const char* const subjects[] = {"Tom", "María", "Mi hermana",  "El niño", "Nobody",
                                  "We",  "You",   "The teacher", "Él",      "My neighbour's son"};
  const char* const verbs[] = {"likes", "quería", "bought", "is reading",   "has seen",
                               "comió", "mira",   "forgot", "doesn't know", "está buscando"};
  const char* const objects[] = {"the old house.",  "una manzana.",       "¿qué?",        "nothing!",
                                 "a train, a bus.", "el mar...",          "(the answer)", "100 books",
                                 "la canción.",     "your brother-in-law"};
  std::vector<std::string> sentences;
  for (const char* subject : subjects) {
    for (const char* verb : verbs) {
      for (const char* object : objects)
        sentences.push_back(std::string(subject) + " " + verb + " " + object);
    }
  }
  return sentences;
}

}  // namespace orthornn::testing

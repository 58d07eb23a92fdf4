#pragma once

#include <memory>
#include <string>

#include "orthornn/train/translator.hpp"

namespace orthornn::program {

/// A model that translates, from its file alone, which has the vocabularies too.
class LoadedTranslator {
 public:
  /// Throws FileError for a file of another kind.
  LoadedTranslator(const std::string& file, const Execution& execution);

  Translator& operator*() const { return *translator_; }
  Translator* operator->() const { return translator_.get(); }

 private:
  std::unique_ptr<EncoderDecoder<float>> model_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Translator> translator_;
};

}  // namespace orthornn::program

// Model files of an encoder-decoder and its vocabularies.

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/layers/delta_product_blocks.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/translator.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/hdf5_edit.hpp"
#include "support/sentence_pairs.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

const std::vector<LayerOptions> two_ways = {Bidirectional{{OrthogonalCell{.hidden_size = 4}}}};

struct TranslationTraining {
  explicit TranslationTraining(const std::filesystem::path& data,
                               std::vector<LayerOptions> encoder = two_ways)
      : task({.data = data, .batch = 16, .seed = 3}),
        options{.source_symbols = task.source_tokenizer().size(),
                .target_symbols = task.target_tokenizer().size(),
                .embedding_size = 4,
                .encoder = std::move(encoder),
                .decoder = {Lstm{5}, OrthogonalCell{.hidden_size = 4}},
                .tied = true,
                .dropout = 0.25,
                .label_smoothing = 0.125},
        model(Device::cpu(), options, 5),
        trainer(model, task, {.optimizer = Adam{.lr = 0.01, .lr_orthogonal = 0.001}}) {}

  void steps(int count) {
    for (int i = 0; i < count; ++i) trainer.step();
  }

  TranslationTask task;
  EncoderDecoderOptions options;
  EncoderDecoder<float> model;
  Trainer trainer;
};

struct Folder {
  Folder() { write_text(data, number_pairs(100)); }

  TemporaryFolder folder;
  std::filesystem::path data = folder / "pairs.txt", file = folder / "model.h5", other = folder / "other.h5";
};

/// Every way to read a model from such a file refuses it, with these words.
void check_no_model(const std::filesystem::path& file, std::initializer_list<std::string> words) {
  check_says<FileError>([&] { load_any_model(file); }, words);
  check_says<FileError>([&] { load_encoder_decoder(file); }, words);
  check_says<FileError>([&] { convert_model(file, file); }, words);
}

}  // namespace

TEST_CASE("a file gives back an encoder-decoder with its vocabularies", "[train][translation]") {
  const Folder folder;
  const DeltaProductCell delta{.hidden_size = 4, .heads = 2, .key_size = 3, .value_size = 2};
  TranslationTraining training(folder.data,
                               GENERATE(false, true) ? delta_product_blocks(delta, GatedMlp{}, 2) : two_ways);
  training.steps(2);
  save_checkpoint(folder.file, training.trainer);
  ModelFileInfo info, any_info;
  const auto loaded = load_encoder_decoder(folder.file, {}, &info);
  const auto any = load_any_model(folder.file, {}, &any_info);
  CHECK(loaded->options_text() == training.model.options_text());
  CHECK(equal(loaded->parameters().values(), training.model.parameters().values()));
  REQUIRE(dynamic_cast<EncoderDecoder<float>*>(any.get()) != nullptr);
  CHECK(equal(any->parameters().values(), training.model.parameters().values()));
  CHECK(any_info.config == info.config);
  CHECK((info.parts == training.task.parts()));
  CHECK((any_info.parts == info.parts));
  CHECK(info.steps == 2);
  // A reader of version 2 says that it is too old. It can read other models, which have version 2 still.
  CHECK(info.format_version == 3);
  check_says<FileError>([&] { load_model(folder.file); },
                        {folder.file.string(), "an encoder and a decoder", "one sequence"});

  // The text is not needed any more.
  std::filesystem::remove(folder.data);
  const auto task =
      make_task(info.task_config, {.batch = info.batch, .seed = info.seed, .parts = info.parts});
  const std::vector<std::string> sentences = {"4 2", "", "9 unheard"};
  const auto found = Translator(*loaded, dynamic_cast<const TranslationTask&>(*task)).translate(sentences);
  const auto expected = Translator(training.model, training.task).translate(sentences);
  for (std::size_t i = 0; i < sentences.size(); ++i) CHECK(found[i][0].text == expected[i][0].text);

  save_model(folder.other, training.model);
  CHECK(equal(load_encoder_decoder(folder.other)->parameters().values(), loaded->parameters().values()));
  CHECK(read_model_info(folder.other).parts.empty());
}

TEST_CASE("a file with layers of one sequence is no encoder-decoder", "[train][translation]") {
  const Folder folder;
  const SequenceModel<float> model(Device::cpu(),
                                   {OneHot{3}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{2}});
  save_model(folder.file, model);
  check_says<FileError>([&] { load_encoder_decoder(folder.file); },
                        {folder.file.string(), "one sequence", "an encoder and a decoder"});
  CHECK(dynamic_cast<SequenceModel<float>*>(load_any_model(folder.file).get()) != nullptr);
}

TEST_CASE("a training of a translation goes on with the same bits, from a converted file as well",
          "[train][translation]") {
  const Folder folder;
  TranslationTraining whole(folder.data);
  // Six batches of an epoch: the second part crosses its end.
  CHECK(*whole.task.batches_per_epoch() == 6);
  whole.steps(3);
  whole.trainer.evaluate();
  save_checkpoint(folder.file, whole.trainer);
  convert_model(folder.file, folder.other);
  whole.steps(5);
  for (const auto& file : {folder.file, folder.other}) {
    TranslationTraining resumed(folder.data);
    CHECK(check_resumable(file, resumed.trainer).steps == 3);
    restore(file, resumed.trainer);
    REQUIRE(resumed.trainer.best());
    CHECK(resumed.trainer.best()->step == 3);
    resumed.steps(5);
    CHECK(equal(resumed.model.parameters().values(), whole.model.parameters().values()));
  }
}

TEST_CASE("a converted translation model has the same content", "[train][translation]") {
  const Folder folder;
  TranslationTraining training(folder.data);
  training.steps(1);
  save_checkpoint(folder.file, training.trainer);
  const std::string before = content(folder.file);
  convert_model(folder.file, folder.file);
  CHECK((content(folder.file) == before));
  save_model(folder.file, training.model);
  const std::string model_alone = content(folder.file);
  convert_model(folder.file, folder.other);
  CHECK((content(folder.other) == model_alone));
}

TEST_CASE("a translation is not resumed with other data", "[train][translation]") {
  const Folder folder;
  TranslationTraining training(folder.data);
  training.steps(1);
  save_checkpoint(folder.file, training.trainer);
  // As many words of each language, one of them another.
  std::string text = number_pairs(100);
  for (std::size_t at; (at = text.find("seven")) != std::string::npos;) text.replace(at, 5, "sieben");
  write_text(folder.data, text);
  TranslationTraining other(folder.data);
  const Tensor<float> before = other.model.parameters().values().copy();
  check_says<FileError>([&] { restore(folder.file, other.trainer); }, {"another vocabulary"});
  CHECK(equal(other.model.parameters().values(), before));
}

TEST_CASE("a hostile file of a translation is refused with the reason", "[train][translation][long]") {
  const Folder folder;
  TranslationTraining training(folder.data);
  save_checkpoint(folder.file, training.trainer);
  const auto edited = [&](const auto& edit, std::initializer_list<std::string> words) {
    std::filesystem::copy_file(folder.file, folder.other, std::filesystem::copy_options::overwrite_existing);
    edit(Hdf5Edit(folder.other));
    check_says<FileError>([&] { read_model_info(folder.other); }, words);
    check_no_model(folder.other, words);
  };
  // A kind that orthornn does not know may be known to a program.
  const auto edited_model = [&](const std::string& from, const std::string& to,
                                std::initializer_list<std::string> words) {
    std::filesystem::copy_file(folder.file, folder.other, std::filesystem::copy_options::overwrite_existing);
    Hdf5Edit(folder.other).replace_in_text("/", "config", from, to);
    check_no_model(folder.other, words);
  };
  const auto config = [&](const std::string& from, const std::string& to,
                          std::initializer_list<std::string> words) {
    edited([&](const Hdf5Edit& file) { file.replace_in_text("/", "config", from, to); }, words);
  };
  SECTION("kind of the model") {
    const std::string kind = R"("kind":"encoder_decoder")";
    edited_model(kind, R"("kind":"decoder_encoder")", {"'decoder_encoder'", "does not know"});
    config(kind, R"("kind":3)", {"config", "kind"});
    config(kind + ",", "", {"config"});
    config(R"("source_symbols":14)", R"("source_symbols":0)", {"source_symbols"});
  }
  SECTION("names of parts") {
    const std::string name = R"("name":"source_tokenizer")";
    for (const char* other :
         {"a/b", "..", "../source_tokenizer", "/", ".", "", "permutation", "Name", "a b", "\\u0000", "\\n"})
      config(name, fmt::format(R"("name":"{}")", other), {"config", "name"});
    config(name, fmt::format(R"("name":"{}")", std::string(65, 'a')), {"config", "name", "65 bytes"});
    config(name, R"("name":"target_tokenizer")", {"config", "target_tokenizer", "twice"});
    config(name, R"("name":1)", {"config", "name"});
    config(name, R"("title":"a")", {"config", "name"});
    config(name, R"("name":"some_tokenizer")", {"some_tokenizer"});
  }
  SECTION("number of parts") {
    std::string many;
    for (char letter = 'a'; letter < 'a' + 15; ++letter) many += fmt::format(R"({{"name":"{}"}},)", letter);
    config(R"("parts":[)", R"("parts":[)" + many, {"config", "18 parts", "at most 16"});
    config(R"("parts":[)", R"("parts":3,"others":[)", {"config", "parts"});
  }
  SECTION("datasets of parts") {
    edited([](const Hdf5Edit& file) { file.remove("task/source_tokenizer"); }, {"task/source_tokenizer"});
    const auto replaced = [&](hid_t type, const Hdf5Edit::Sizes& sizes, const void* data,
                              std::initializer_list<std::string> words) {
      edited(
          [&](const Hdf5Edit& file) {
            file.dataset("task/source_tokenizer", type, sizes, H5P_DEFAULT, data);
          },
          words);
    };
    const std::string text = "orthornn tokenizer 1\n";
    replaced(H5T_NATIVE_UINT8, {text.size()}, text.data(), {"source_tokenizer", "second line"});
    const float numbers[4] = {1, 2, 3, 4};
    replaced(H5T_NATIVE_FLOAT, {4}, numbers, {"task/source_tokenizer"});
    replaced(H5T_NATIVE_UINT8, {0}, nullptr, {"source_tokenizer"});
    // Far more than the file holds.
    replaced(H5T_NATIVE_UINT8, {std::uint64_t{1} << 40}, nullptr, {"task/source_tokenizer"});
  }
  SECTION("task") {
    config(R"("keep_case":false)", R"("keep_case":true)", {"source_tokenizer", "case"});
    config(R"("longest":100)", R"("longest":0)", {"longest"});
  }
}

TEST_CASE("an encoder-decoder of other sizes than the file's parameters is refused", "[train][translation]") {
  const Folder folder;
  const TranslationTraining training(folder.data);
  const auto refused = [&](const std::string& from, const std::string& to,
                           std::initializer_list<std::string> words) {
    save_model(folder.file, training.model);
    Hdf5Edit(folder.file).replace_in_text("/", "config", from, to);
    check_no_model(folder.file, words);
  };
  const std::string source = R"("source_symbols":14,)";
  refused(source, R"("source_symbols":15,)", {"source_embedding/vectors", "[15, 4]"});
  // Far more than the file holds, or than any memory does.
  refused(source, R"("source_symbols":1000000000,)", {"bytes"});
  refused(source, R"("source_symbols":9007199254740992,)", {"model.h5"});
  refused(R"("embedding_size":4)", R"("embedding_size":9007199254740992)", {"model.h5"});
}

TEST_CASE("a model without its vocabularies is loaded, but neither translates nor goes on",
          "[train][translation]") {
  const Folder folder;
  TranslationTraining training(folder.data);
  save_checkpoint(folder.file, training.trainer);
  const std::string parts =
      R"("parts":[{"name":"source_tokenizer"},{"name":"target_tokenizer"},{"name":"data"}])";
  Hdf5Edit(folder.file).replace_in_text("/", "config", parts, R"("parts":[])");
  ModelFileInfo info;
  const auto model = load_encoder_decoder(folder.file, {}, &info);
  const auto task =
      make_task(info.task_config, {.batch = info.batch, .seed = info.seed, .parts = info.parts});
  CHECK_THROWS_AS(Translator(*model, dynamic_cast<const TranslationTask&>(*task)), FileError);
  check_says<FileError>([&] { restore(folder.file, training.trainer); }, {"another vocabulary"});
}

TEST_CASE("a vocabulary of another size than the model's does not translate", "[train][translation]") {
  const Folder folder;
  TranslationTraining training(folder.data);
  save_checkpoint(folder.file, training.trainer);
  write_text(folder.data, number_pairs(10));
  const std::string bytes = TranslationTask({.data = folder.data, .longest = 10}).parts().at(1).bytes;
  Hdf5Edit(folder.file)
      .dataset("task/target_tokenizer", H5T_NATIVE_UINT8, {bytes.size()}, H5P_DEFAULT, bytes.data());
  ModelFileInfo info;
  const auto model = load_encoder_decoder(folder.file, {}, &info);
  const auto task =
      make_task(info.task_config, {.batch = info.batch, .seed = info.seed, .parts = info.parts});
  check_says<ValueError>([&] { Translator(*model, dynamic_cast<const TranslationTask&>(*task)); },
                         {"tokenizers have"});
}

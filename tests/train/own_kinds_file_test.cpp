// Model files with layers and parametrizations that a program registers.

#include <initializer_list>
#include <string>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/hdf5_edit.hpp"
#include "support/model_folder.hpp"
#include "support/own_kinds.hpp"

namespace orthornn::testing {
namespace {

const CopyingTask& short_copying() {
  static const CopyingTask small({.delay = 2, .batch = 3, .seed = 5});
  return small;
}

/// Own kinds in every place that a model has for them.
ModelOptions own_options() {
  register_own_kinds();
  const OrthogonalCell cell{.hidden_size = 6, .transition = Turns{.largest = 2}};
  return model_for(short_copying().data(),
                   {cell, Residual{{Dropout{.rate = 0.25}, Spread{.copies = 1}}},
                    Bidirectional{{Spread{.start = 0.5}, cell}}, Traits{{.copies = 3}}});
}

}  // namespace

TEST_CASE("a model of own kinds is saved and loaded with its options and outputs", "[train][own]") {
  const ModelFolder files;
  SequenceModel<float> model(Device::cpu(), own_options(), 7);
  save_model(files.file, model);
  ModelFileInfo info;
  const auto loaded = load_model(files.file, {}, &info);
  CHECK(to_json(loaded->options()) == to_json(model.options()));
  CHECK(to_json(model_options_from_json(to_json(model.options()))) == to_json(model.options()));
  CHECK(equal(loaded->parameters().values(), model.parameters().values()));
  CHECK(loaded->parameters().list()[loaded->parameters().find("cell2/forward/0/g")].shape == Shape{6});
  const auto& both = std::get<Bidirectional>(std::get<ModelOptions>(info.model).cells[2]);
  CHECK(std::get<OwnLayer>(both.layers[0]).get_if<Spread>()->start == 0.5);
  Batch batch;
  short_copying().evaluation_batch(HeldOut::test, 0, batch);
  CHECK(loaded->loss(batch).mean() == model.loss(batch).mean());
  const auto any = load_any_model(files.file);
  CHECK(equal(any->parameters().values(), model.parameters().values()));
  convert_model(files.file, files.path() / "again.h5");
  CHECK(to_json(load_model(files.path() / "again.h5")->options()) == to_json(model.options()));
}

TEST_CASE("a training of own kinds goes on with the same bits", "[train][own]") {
  const ModelFolder files;
  const TrainerOptions options{.optimizer = Adam{.lr = 0.01, .lr_orthogonal = 0.002}};
  SequenceModel<float> model(Device::cpu(), own_options(), 7);
  Trainer trainer(model, short_copying(), options);
  const Tensor<float> first = model.parameters().values().copy();
  for (int i = 0; i < 3; ++i) trainer.step();
  CHECK_FALSE(equal(model.parameters().values(), first));
  save_checkpoint(files.file, trainer);
  SequenceModel<float> other(Device::cpu(),
                             read_model_info(files.file).steps ? own_options() : ModelOptions(), 8);
  Trainer resumed(other, short_copying(), options);
  restore(files.file, resumed);
  for (int i = 0; i < 3; ++i) {
    trainer.step();
    resumed.step();
  }
  CHECK(equal(other.parameters().values(), model.parameters().values()));
  // Another field is another model.
  ModelOptions changed = own_options();
  changed.cells[1] = Residual{{Dropout{.rate = 0.5}, Spread{.copies = 1}}};
  SequenceModel<float> third(Device::cpu(), changed, 7);
  Trainer refused(third, short_copying(), options);
  check_says<FileError>([&] { restore(files.file, refused); }, {"another model", "0.25", "0.5"});
}

TEST_CASE("a file with a kind that the program has not registered names it", "[train][own][errors]") {
  const ModelFolder files;
  for (const auto& [known, unknown] :
       {std::pair("\"spread\"", "\"sprout\""), {"\"turns\"", "\"tunes\""}, {"\"traits\"", "\"trades\""}}) {
    save_model(files.file, SequenceModel<float>(Device::cpu(), own_options(), 7));
    Hdf5Edit(files.file).replace_in_text("/", "config", known, unknown);
    const std::initializer_list<std::string> words = {files.file.string() + ": 'kind' is " + unknown,
                                                      "expected", "registers kinds of its own",
                                                      "register_layer and register_transition"};
    check_says<FileError>([&] { read_model_info(files.file); }, words);
    check_says<FileError>([&] { load_any_model(files.file); }, words);
    check_says<FileError>([&] { load_model(files.file); }, words);
    check_says<FileError>([&] { convert_model(files.file, files.file); }, words);
  }
  // What is wrong within a known kind is another mistake.
  save_model(files.file, SequenceModel<float>(Device::cpu(), own_options(), 7));
  Hdf5Edit(files.file).replace_in_text("/", "config", "\"copies\":1", "\"copies\":0");
  check_says<FileError>([&] { load_model(files.file); }, {"not what orthornn writes", "'copies' is 0"});
}

}  // namespace orthornn::testing

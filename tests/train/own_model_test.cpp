// A program's own Model in files: saved, loaded into another instance, resumed.

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/hdf5_edit.hpp"
#include "support/model_folder.hpp"

namespace orthornn::testing {
namespace {

/// Answers each symbol by the logits that a table has for it, times a factor that its options have. On the
/// CPU.
class TableModel final : public Model<float> {
 public:
  explicit TableModel(Index symbols, Index classes, double factor = 1, bool with_bias = false)
      : Model<float>({}, /*draws=*/false), factor_(factor) {
    table_ = parameters_.add("table/logits", {symbols, classes});
    if (with_bias) parameters_.add("table/bias", {classes});
    parameters_.allocate(device());
    for (std::int32_t i = 0; float& x : parameters_.values()) x = 0.01F * static_cast<float>(i++ % 7);
    options = fmt::format(R"({{"kind": "table", "factor": {}}})", factor);
  }

  std::string options_text() const override { return options; }
  bool recordable(const Batch&) const override { return false; }
  std::vector<LayerDescription> describe(Index, Index) const override { return {}; }
  std::optional<double> orthogonality_error() override { return std::nullopt; }

  std::string options;

 private:
  void run_prepare() override {
    if (parameters_.values()(0) < -50) throw ValueError("the first logit is below -50");
  }

  void run(const Batch& batch, bool gradient) override {
    const TensorView<const std::int32_t> symbols = batch.needed_integers(batch_names::symbols);
    const TensorView<const float> table = std::as_const(parameters_).value(table_);
    const Index classes = table.shape()[1];
    memory_.resize({symbols.shape()[0], symbols.shape()[1], classes});
    for (Index i = 0; i < symbols.size(); ++i) {
      for (Index c = 0; c < classes; ++c)
        memory_.data()[i * classes + c] = static_cast<float>(factor_) * table(symbols.data()[i], c);
    }
    outputs_ = memory_.view();
    softmax_cross_entropy<float>(outputs_, batch.needed_integers(batch_names::classes), {}, loss_, gradient);
    if (!gradient) return;
    for (float& x : parameters_.gradients()) x = 0;
    const TensorView<float> d_table = parameters_.gradient(table_);
    for (Index i = 0; i < symbols.size(); ++i) {
      for (Index c = 0; c < classes; ++c)
        d_table(symbols.data()[i], c) += static_cast<float>(factor_) * memory_.data()[i * classes + c];
    }
  }

  double factor_;
  Index table_ = 0;
  Tensor<float> memory_{Shape{0}};
};

const CopyingOptions small_copying = {.delay = 2, .batch = 3, .seed = 5};

}  // namespace

TEST_CASE("a program's own model is loaded into another instance", "[train]") {
  const ModelFolder files;
  TableModel model(10, 9);
  save_model(files.file, model);
  TableModel other(10, 9);
  for (float& x : other.parameters().values()) x = 0;
  ModelFileInfo info;
  load_parameters(files.file, other, &info);
  CHECK(equal(other.parameters().values(), model.parameters().values()));
  CHECK(std::get<OwnModelOptions>(info.model).kind == "table");
  CHECK(info.format_version == 3);
  // Of orthornn's own models as well.
  const ModelOptions options{OneHot{3}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{2}};
  const SequenceModel<float> layers(Device::cpu(), options, 7);
  save_model(files.file, layers);
  SequenceModel<float> same(Device::cpu(), options, Undrawn{});
  load_parameters(files.file, same);
  CHECK(equal(same.parameters().values(), layers.parameters().values()));
}

TEST_CASE("a training of a program's own model goes on with the same bits", "[train]") {
  const ModelFolder files;
  const CopyingTask task(small_copying);
  const TrainerOptions options{.optimizer = Adam{.lr = 0.1}};
  TableModel model(10, 9);
  Trainer trainer(model, task, options);
  for (int i = 0; i < 3; ++i) trainer.step();
  trainer.evaluate();
  save_checkpoint(files.file, trainer);
  TableModel other(10, 9);
  Trainer resumed(other, task, options);
  CHECK(check_resumable(files.file, resumed).steps == 3);
  restore(files.file, resumed);
  CHECK(resumed.best()->loss == trainer.best()->loss);
  for (int i = 0; i < 3; ++i) {
    trainer.step();
    resumed.step();
  }
  CHECK(equal(other.parameters().values(), model.parameters().values()));
  CHECK(evaluate(other, task, HeldOut::test).loss == evaluate(model, task, HeldOut::test).loss);
  save_checkpoint(files.path() / "resumed.h5", resumed);
  save_checkpoint(files.file, trainer);
  const auto best_of = [](const std::filesystem::path& file) { return read_model_info(file).best->step; };
  CHECK(best_of(files.path() / "resumed.h5") == best_of(files.file));
}

TEST_CASE("a program's own model is loaded from its own file alone", "[train]") {
  const ModelFolder files;
  const CopyingTask task(small_copying);
  TableModel model(10, 9);
  {
    Trainer trainer(model, task);
    trainer.step();
    save_checkpoint(files.file, trainer);
  }
  const std::string file = files.file.string();
  const auto refused = [&](TableModel& other, std::initializer_list<std::string> words) {
    const Tensor<float> before = other.parameters().values().copy();
    Trainer resumed(other, task);
    check_says<FileError>([&] { load_parameters(file, other); }, words);
    check_says<FileError>([&] { restore(file, resumed); }, words);
    CHECK(equal(other.parameters().values(), before));
    CHECK(resumed.steps() == 0);
  };
  TableModel other_kind(10, 9);
  other_kind.options = R"({"kind": "list", "factor": 1})";
  refused(other_kind, {file, "one of the kind 'table'", "expected one of the kind 'list'"});
  TableModel other_factor(10, 9, 2);
  refused(other_factor, {file, "factor is 1 there and 2 here"});
  TableModel other_shape(10, 8);
  refused(other_shape, {file, "parameters/table/logits", "[10, 8]", "[10, 9]"});
  TableModel more(10, 9, 1, /*with_bias=*/true);
  refused(more, {file, "parameters/table/bias", "no such object"});
  {
    TableModel bigger(10, 9, 1, /*with_bias=*/true);
    Trainer trainer(bigger, task);
    save_checkpoint(file, trainer);
  }
  TableModel fewer(10, 9);
  refused(fewer, {file, "'parameters/table/bias'", "knows nothing"});
}

TEST_CASE("parameters that a program's own model refuses leave it as it was", "[train]") {
  const ModelFolder files;
  TableModel model(10, 9);
  model.parameters().values()(0) = -60;
  save_model(files.file, model);
  TableModel other(10, 9);
  const Tensor<float> before = other.parameters().values().copy();
  check_says<FileError>([&] { load_parameters(files.file, other); }, {files.file.string(), "below -50"});
  CHECK(equal(other.parameters().values(), before));
}

TEST_CASE("a program's own model without a kind of its own is not saved", "[train]") {
  const ModelFolder files;
  const CopyingTask task(small_copying);
  TableModel model(10, 9);
  Trainer trainer(model, task);
  for (const char* options : {R"({"factor":1})", "3", R"({"kind":1})", R"({"kind":"encoder_decoder"})"}) {
    CAPTURE(options);
    model.options = options;
    check_says<ValueError>([&] { save_model(files.file, model); }, {"\"kind\" of its own", options});
    check_says<ValueError>([&] { save_checkpoint(files.file, trainer); }, {"\"kind\" of its own"});
  }
  model.options = R"({"kind": "a\nb"})";
  check_says<ValueError>([&] { save_model(files.file, model); }, {"kind of the model", "printable"});
  CHECK_FALSE(std::filesystem::exists(files.file));
}

TEST_CASE("what knows orthornn's models alone names the kind that it does not know", "[train]") {
  const ModelFolder files;
  const TableModel model(10, 9);
  save_model(files.file, model);
  const std::initializer_list<std::string> words = {files.file.string(), "one of the kind 'table'",
                                                    "orthornn does not know"};
  check_says<FileError>([&] { load_any_model(files.file); }, words);
  check_says<FileError>([&] { load_model(files.file); }, words);
  check_says<FileError>([&] { load_encoder_decoder(files.file); }, words);
  check_says<FileError>([&] { convert_model(files.file, files.file); }, words);
  SequenceModel<float> layers(Device::cpu(), {OneHot{10}, {OrthogonalCell{.hidden_size = 4}}, EveryStep{9}});
  check_says<FileError>([&] { load_parameters(files.file, layers); }, words);
  check_says<FileError>([&] { load_parameters(files.file, layers); }, {"expected layers"});
  // A stranger's file.
  Hdf5Edit(files.file).replace_in_text("/", "config", "table", "ta\\u0007ble");
  check_says<FileError>([&] { read_model_info(files.file); }, {"kind of the model", "printable"});
}

}  // namespace orthornn::testing

// orthornn predict: the library's own outputs, and inputs that do not fit.

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "io/npz_file.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/errors.hpp"
#include "support/random_tensor.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

Tensor<std::int32_t> symbols(const Shape& shape, std::int32_t count) {
  Tensor<std::int32_t> x(shape);
  std::int32_t i = 0;
  for (std::int32_t& value : x) value = i++ * 7 % count;
  return x;
}

struct Outputs {
  Tensor<float> logits;
  Tensor<float> h_last;
};

Outputs predicted(const fs::path& model, const fs::path& input, const fs::path& output) {
  check_success(run({"predict", model.string(), input.string(), "-o", output.string()}));
  const Hdf5Reader reader(output);
  return {reader.read<float>("logits"), reader.read<float>("h_last")};
}

void check_equals_library(const Outputs& found, const fs::path& model_file, const Batch& batch) {
  const auto model = load_model(model_file);
  CHECK(equal(found.logits, model->forward(batch)));
  ModelState<float> state;
  model->final_state(state);
  CHECK(equal(found.h_last, state.back()));
}

}  // namespace

TEST_CASE("predict gives the library's outputs for symbols", "[cli][predict]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "2"})));
  const fs::path model = folder / "run/model.h5";
  Batch batch;
  batch.integers(batch_names::symbols) =
      symbols({7, 3}, 10);  // another length and batch than those of the training
  const fs::path input = folder / "in.h5", output = folder / "out.h5";
  const auto write = [&] {
    Hdf5Writer writer;
    writer.dataset("x", batch.integers(batch_names::symbols));
    if (!batch.integers(batch_names::lengths).empty())
      writer.dataset("lengths", batch.integers(batch_names::lengths));
    writer.commit(input);
  };
  write();
  const Outputs whole = predicted(model, input, output);
  CHECK(whole.logits.shape() == Shape{7, 3, 9});
  CHECK(whole.h_last.shape() == Shape{3, 8});
  check_equals_library(whole, model, batch);

  batch.integers(batch_names::lengths) = Tensor<std::int32_t>(Shape{3});
  batch.integers(batch_names::lengths)(0) = 7;
  batch.integers(batch_names::lengths)(1) = 2;
  batch.integers(batch_names::lengths)(2) = 0;
  write();
  const Outputs parts = predicted(model, input, output);
  check_equals_library(parts, model, batch);
  CHECK_FALSE(equal(parts.h_last, whole.h_last));
  for (const float x : parts.h_last.view()[2]) CHECK(x == 0);  // no step, so the initial state

  // Padding may be anything.
  Tensor<std::int32_t> padded = batch.integers(batch_names::symbols).copy(Device::cpu());
  for (Index t = 2; t < 7; ++t) padded(t, 1) = 9999;
  for (Index t = 0; t < 7; ++t) padded(t, 2) = -1;
  std::swap(batch.integers(batch_names::symbols), padded);
  write();
  std::swap(batch.integers(batch_names::symbols), padded);
  const Outputs with_padding = predicted(model, input, output);
  CHECK((equal(with_padding.logits, parts.logits) && equal(with_padding.h_last, parts.h_last)));

  // Integers of any width.
  Tensor<std::int64_t> wide(batch.integers(batch_names::symbols).shape());
  std::copy(batch.integers(batch_names::symbols).begin(), batch.integers(batch_names::symbols).end(),
            wide.begin());
  Tensor<std::uint8_t> narrow = cast<std::uint8_t>(batch.integers(batch_names::symbols));
  for (const bool is_wide : {true, false}) {
    Hdf5Writer writer;
    if (is_wide) {
      writer.dataset("x", wide);
    } else {
      writer.dataset("x", narrow);
    }
    writer.commit(input);
    CHECK(equal(predicted(model, input, output).logits, whole.logits));
  }
}

TEST_CASE("predict gives the library's outputs for floats and every cell of a stack", "[cli][predict]") {
  const TemporaryFolder folder;
  check_success(run({"train", "adding", "--length", "6", "--hidden", "8", "--batch", "4", "--steps", "2",
                     "--layers", "2", "--out", (folder / "run").string()}));
  const fs::path model = folder / "run/model.h5", input = folder / "in.h5", output = folder / "out.h5";
  Batch batch;
  batch.reals(batch_names::features) = normal_tensor<float>({5, 3, 2}, 1);
  Hdf5Writer writer;
  writer.dataset("x", batch.reals(batch_names::features));
  writer.commit(input);
  const Outputs found = predicted(model, input, output);
  CHECK(found.logits.shape() == Shape{3, 1});
  check_equals_library(found, model, batch);
  const Hdf5Reader reader(output);
  CHECK(reader.shape("h_last0") == Shape{3, 8});
  CHECK(equal(reader.read<float>("h_last1"), found.h_last));
}

TEST_CASE("predict names every dataset that it writes", "[cli][predict]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1", "--layers", "2", "--cell", "lstm"})));
  {
    Hdf5Writer writer;
    writer.dataset("x", symbols({5, 2}, 10));
    writer.commit(folder / "in.h5");
  }
  const ProgramResult result =
      run({"predict", folder / "run/model.h5", folder / "in.h5", "-o", folder / "out.h5"});
  check_success(result);
  const Hdf5Reader reader(folder / "out.h5");
  for (const char* name : {"logits", "h_last0", "c_last0", "h_last1", "c_last1", "h_last", "c_last"}) {
    CAPTURE(name);
    CHECK(reader.has(name));
    CHECK_THAT(result.output, contains(std::string("/") + name + " ["));
  }
}

TEST_CASE("predict reads the steps in the order that a permuted model was trained with", "[cli][predict]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  check_success(run(train_mnist(folder / "data", folder / "run", {"--permuted", "--steps", "2"})));
  const fs::path model = folder / "run/model.h5", input = folder / "in.h5", output = folder / "out.h5";
  const Tensor<float> x = normal_tensor<float>({12, 3, 1}, 1);
  Hdf5Writer writer;
  writer.dataset("x", x);
  writer.commit(input);
  const Tensor<std::int32_t> order = Hdf5Reader(model).read<std::int32_t>("task/permutation");
  Batch batch;
  batch.reals(batch_names::features) = Tensor<float>(x.shape());
  for (Index t = 0; t < 12; ++t)
    copy<float>(x.view()[order(t)], batch.reals(batch_names::features).view()[t]);
  check_equals_library(predicted(model, input, output), model, batch);

  NpzWriter own("own");  // the same images, sequence by sequence
  Tensor<float> images(Shape{3, 12, 1});
  for (Index b = 0; b < 3; ++b) {
    for (Index t = 0; t < 12; ++t) images(b, t, 0) = x(t, b, 0);
  }
  own.dataset("inputs", images);
  own.commit(folder / "own.npz");
  check_success(run({"predict", model.string(), folder / "own.npz", "-o", output.string()}));
  CHECK(equal(Hdf5Reader(output).read<float>("outputs"), load_model(model)->forward(batch)));

  Hdf5Writer shorter;
  shorter.dataset("x", normal_tensor<float>({11, 3, 1}, 1));
  shorter.commit(input);
  check_refused(run({"predict", model.string(), input.string(), "-o", output.string()}), 1,
                {input.string(), "11 steps", "12"});
  Hdf5Writer ended;
  ended.dataset("x", x);
  Tensor<std::int32_t> lengths(Shape{3});
  std::ranges::fill(lengths, 12);
  lengths(1) = 5;
  ended.dataset("lengths", lengths);
  ended.commit(input);
  check_refused(run({"predict", model.string(), input.string(), "-o", output.string()}), 1,
                {input.string(), "a sequence has 5 steps", "reads 12 in an order of its own"});
}

TEST_CASE("predict refuses an input that does not fit, and writes nothing", "[cli][predict][long]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "copying", {"--steps", "1"})));
  check_success(run({"train", "adding", "--length", "6", "--hidden", "8", "--batch", "4", "--steps", "1",
                     "--out", (folder / "adding").string()}));
  const std::string of_symbols = folder / "copying/model.h5", of_floats = folder / "adding/model.h5";
  const std::string input = folder / "in.h5", output = folder / "out.h5";
  const auto refused = [&](const std::string& model, const auto& x, const Tensor<std::int32_t>& lengths,
                           std::initializer_list<std::string> words) {
    Hdf5Writer writer;
    writer.dataset("x", x);
    if (!lengths.empty()) writer.dataset("lengths", lengths);
    writer.commit(input);
    const ProgramResult result = run({"predict", model, input, "-o", output});
    check_refused(result, 1, {input});
    check_refused(result, 1, words);
    CHECK_FALSE(fs::exists(output));
  };
  const Tensor<std::int32_t> all;
  SECTION("kind and shape of x") {
    refused(of_symbols, normal_tensor<float>({4, 3}, 1), all, {"/x", "floats", "integer symbols [T, B]"});
    refused(of_symbols, normal_tensor<float>({4, 3, 10}, 1), all, {"/x", "integer symbols [T, B]"});
    refused(of_symbols, symbols({4}, 10), all, {"/x", "[4]", "[T, B]"});
    refused(of_symbols, symbols({4, 3, 2}, 10), all, {"/x", "[4, 3, 2]", "[T, B]"});
    refused(of_symbols, symbols({0, 3}, 10), all, {"/x", "[0, 3]"});
    refused(of_symbols, symbols({4, 0}, 10), all, {"/x", "[4, 0]"});
    refused(of_floats, symbols({4, 3, 2}, 10), all, {"/x", "integers", "floats [T, B, 2]"});
    refused(of_floats, normal_tensor<float>({4, 3}, 1), all, {"/x", "[4, 3]", "[T, B, 2]"});
    refused(of_floats, normal_tensor<float>({4, 3, 3}, 1), all, {"/x", "[4, 3, 3]", "[T, B, 2]"});
    refused(of_floats, Tensor<float>(Shape{0, 3, 2}), all, {"/x", "[0, 3, 2]"});
  }
  SECTION("values of x") {
    Tensor<std::int32_t> beyond = symbols({4, 3}, 10);
    beyond(2, 1) = 10;
    refused(of_symbols, beyond, all, {"10", "0 to 9"});
    beyond(2, 1) = -1;
    refused(of_symbols, beyond, all, {"-1", "0 to 9"});
    Tensor<std::int64_t> wide(Shape{4, 3});
    wide(0, 0) = std::int64_t{1} << 32;  // 0 when cut to 32 bits
    refused(of_symbols, wide, all, {"x"});
    Tensor<float> odd = normal_tensor<float>({4, 3, 2}, 1);
    odd(1, 2, 0) = std::numeric_limits<float>::quiet_NaN();
    refused(of_floats, odd, all, {"/x", "not finite"});
    odd(1, 2, 0) = std::numeric_limits<float>::infinity();
    refused(of_floats, odd, all, {"/x", "not finite"});
    Tensor<double> large(Shape{4, 3, 2});
    large(0, 0, 0) = 1e300;  // beyond float
    refused(of_floats, large, all, {"x"});
  }
  SECTION("lengths") {
    Tensor<std::int32_t> lengths(Shape{2});
    refused(of_symbols, symbols({4, 3}, 10), lengths, {"lengths"});
    lengths.resize({3});
    lengths(1) = 5;
    refused(of_symbols, symbols({4, 3}, 10), lengths, {"5", "0 to 4"});
    lengths(1) = -1;
    refused(of_symbols, symbols({4, 3}, 10), lengths, {"-1", "0 to 4"});
    lengths.resize({3, 1});
    refused(of_symbols, symbols({4, 3}, 10), lengths, {"lengths"});
  }
}

TEST_CASE("predict refuses a dataset that it does not read, such as misnamed lengths", "[cli][predict]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const std::string input = folder / "in.h5", output = folder / "out.h5";
  const auto refused = [&](const std::string& name, std::initializer_list<std::string> words) {
    Hdf5Writer writer;
    writer.dataset("x", symbols({4, 3}, 10));
    writer.dataset(name, Tensor<std::int32_t>(Shape{3}));
    writer.commit(input);
    check_refused(run({"predict", folder / "run/model.h5", input, "-o", output}), 1, words);
    CHECK_FALSE(fs::exists(output));
  };
  refused("length", {input, "'/length'", "did you mean /lengths?"});
  refused("targets", {input, "'/targets'", "/x and /lengths"});
}

TEST_CASE("predict refuses files that are missing, no HDF5, or without x", "[cli][predict]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const std::string model = folder / "run/model.h5", output = folder / "out.h5";
  check_refused(run({"predict", model, (folder / "none.h5").string(), "-o", output}), 1,
                {"none.h5", "no such file"});
  check_refused(run({"predict", model, model, "-o", output}), 1, {model, "'/x'"});
  fs::copy_file(folder / "run/metrics.csv", folder / "metrics");
  check_refused(run({"predict", model, (folder / "metrics").string(), "-o", output}), 1,
                {"metrics", "not an HDF5 file"});
  check_refused(run({"predict", model, (folder / "run/metrics.csv").string(), "-o", output}), 1,
                {"metrics.csv", "its steps are numbers", "'symbols'"});
  Hdf5Writer group;
  group.group("x");
  group.commit(folder / "group.h5");
  check_refused(run({"predict", model, (folder / "group.h5").string(), "-o", output}), 1, {"group.h5", "x"});
  CHECK_FALSE(fs::exists(output));

  Hdf5Writer writer;
  writer.dataset("x", symbols({4, 3}, 10));
  writer.commit(folder / "in.h5");
  const std::string input = folder / "in.h5";
  check_refused(run({"predict", model, input, "-o", (folder / "none/out.h5").string()}), 1, {"none/out.h5"});
  fs::create_directory(folder / "folder.h5");
  check_refused(run({"predict", model, input, "-o", (folder / "folder.h5").string()}), 1,
                {"folder.h5", "no regular file"});
  for (const std::string& read : {input, model}) {
    check_refused(run({"predict", model, input, "-o", read}), 2, {read, "is a file that is read"});
  }
  check_success(run({"inspect", model}));
  check_refused(run({"predict", model, input}), 2, {"--out"});
  check_refused(run({"predict", model}), 2, {"input"});
}

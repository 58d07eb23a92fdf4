// Networks of DeltaProduct blocks through every command.

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/errors.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

const Arguments small = {"--cell", "deltaproduct", "--heads", "2", "--key-size", "4", "--value-size", "3"};

}  // namespace

TEST_CASE("DeltaProduct networks are trained, resumed, evaluated and inspected like others", "[cli][delta]") {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole", parts = folder / "parts";
  const Arguments cell =
      small + Arguments{"--layers", "2",       "--householder", "3",          "--convolution",
                        "2",        "--decay", "--output-gate", "--schedule", "constant"};
  check_success(run(train_copying(whole, cell + Arguments{"--steps", "6"})));
  check_success(run(train_copying(parts, cell + Arguments{"--steps", "3"})));
  check_success(run({"train", "--resume", "--steps", "6", "--out", parts.string()}));
  const auto parameters = [](const fs::path& run_folder) {
    return load_model(run_folder / "model.h5")->parameters().values().copy();
  };
  CHECK(equal(parameters(whole), parameters(parts)));

  const auto model = std::get<ModelOptions>(read_model_info(whole / "model.h5").model);
  const Index hidden = std::get<TokenEmbedding>(model.input).size;
  REQUIRE(model.cells.size() == 5);
  const auto& block = std::get<Residual>(model.cells[2]);
  REQUIRE(block.layers.size() == 2);
  CHECK(std::holds_alternative<RmsNorm>(block.layers[0]));
  const auto& delta = std::get<DeltaProductCell>(block.layers[1]);
  CHECK(delta.hidden_size == hidden);
  CHECK(delta.heads == 2);
  CHECK(delta.key_size == 4);
  CHECK(delta.value_size == 3);
  CHECK(delta.householder == 3);
  CHECK(delta.convolution == 2);
  CHECK(delta.state_decay);
  CHECK(delta.output_gate);
  CHECK(std::holds_alternative<GatedMlp>(std::get<Residual>(model.cells[3]).layers[1]));
  CHECK(std::holds_alternative<RmsNorm>(model.cells[4]));

  const std::string file = (whole / "model.h5").string();
  const ProgramResult inspected = run({"inspect", file});
  check_success(inspected);
  CHECK_THAT(inspected.output, contains("deltaproduct") && contains("gated_mlp") && contains("decay_rates"));
  CHECK_THAT(inspected.output, !contains("A'A"));
  check_success(run({"eval", file}));
  check_success(run({"report", whole.string(), "--out", (folder / "report.html").string()}));

  Hdf5Writer writer;
  writer.dataset("x", Tensor<std::int32_t>(Shape{5, 3}));
  writer.commit(folder / "in.h5");
  const fs::path output = folder / "out.h5";
  check_success(run({"predict", file, (folder / "in.h5").string(), "-o", output.string()}));
  CHECK(Hdf5Reader(output).read<float>("logits").shape()[0] == 5);
}

TEST_CASE("DeltaProduct networks read numbers and answer once a sequence", "[cli][delta]") {
  const TemporaryFolder folder;
  check_success(run(Arguments{"train", "adding", "--length", "9", "--batch", "4", "--steps", "2", "--hidden",
                              "5", "--no-mlp", "--out", (folder / "run").string()} +
                    small));
  const auto model = std::get<ModelOptions>(read_model_info(folder / "run/model.h5").model);
  REQUIRE(model.cells.size() == 3);
  CHECK(std::get<Linear>(model.cells[0]).outputs == 5);
  CHECK(std::holds_alternative<LastStep>(model.readout));
  check_success(run({"eval", (folder / "run/model.h5").string()}));
}

TEST_CASE("DeltaProduct networks with factors of RWKV-7 are trained, resumed and inspected", "[cli][delta]") {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole", parts = folder / "parts";
  const Arguments cell = small + Arguments{"--factor", "rwkv7", "--decay", "--schedule", "constant"};
  check_success(run(train_copying(whole, cell + Arguments{"--steps", "4"})));
  check_success(run(train_copying(parts, cell + Arguments{"--steps", "2"})));
  check_success(run({"train", "--resume", "--steps", "4", "--out", parts.string()}));
  CHECK((content(parts / "model.h5") == content(whole / "model.h5")));
  const std::string file = (whole / "model.h5").string();
  const auto model = std::get<ModelOptions>(read_model_info(file).model);
  const auto& delta = std::get<DeltaProductCell>(std::get<Residual>(model.cells.at(0)).layers.at(1));
  CHECK(delta.factor == DeltaFactor::rwkv7);
  const ProgramResult inspected = run({"inspect", file});
  check_success(inspected);
  CHECK_THAT(inspected.output, contains("deltaproduct, recurrent form") && !contains("decay_rates"));
  check_success(run({"eval", file}));
}

TEST_CASE("DeltaProduct networks that cannot be end in one sentence", "[cli][delta]") {
  const TemporaryFolder folder;
  const auto refused = [&](const Arguments& more, int code, std::initializer_list<std::string> words) {
    check_refused(
        run(train_copying(folder / "run", Arguments{"--cell", "deltaproduct", "--steps", "1"} + more)), code,
        words);
  };
  refused({"--heads", "0"}, 2, {"--heads"});
  refused({"--householder", "0"}, 2, {"--householder"});
  refused({"--factor", "givens"}, 2, {"--factor", "givens", "rwkv7"});
  refused({"--beta-limit", "2.5"}, 2, {"--beta-limit"});
  refused({"--convolution", "65"}, 2, {"--convolution"});
  refused({"--readout-norm", "layer"}, 2, {"--readout-norm"});
  refused({"--reflections", "4"}, 2, {"--reflections", "deltaproduct"});
  refused({"--heads", "1000000000000", "--key-size", "1000000000000"}, 2, {"1000000000000"});
#ifndef __SANITIZE_ADDRESS__  // it ends the program where memory is short
  refused({"--heads", "1000000", "--key-size", "1000000"}, 1, {"memory"});
#endif
  check_refused(run(train_copying(folder / "run", {"--key-size", "4", "--steps", "1"})), 2,
                {"--key-size", "deltaproduct"});
}

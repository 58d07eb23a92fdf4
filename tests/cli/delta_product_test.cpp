// Networks of DeltaProduct blocks through every command.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/html_page_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/nn/delta_observation.hpp"
#include "orthornn/tasks/task.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/errors.hpp"
#include "support/hdf5_edit.hpp"
#include "support/occurrences.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

const Arguments small = {"--cell", "deltaproduct", "--heads", "2", "--key-size", "4", "--value-size", "3"};

/// Four steps of training at once, and in two parts, give the same model file. Returns its path.
std::string trained_whole_and_in_parts(const TemporaryFolder& folder, const Arguments& cell) {
  const fs::path whole = folder / "whole", parts = folder / "parts";
  check_success(run(train_copying(whole, cell + Arguments{"--steps", "4"})));
  check_success(run(train_copying(parts, cell + Arguments{"--steps", "2"})));
  check_success(run({"train", "--resume", "--steps", "4", "--out", parts.string()}));
  CHECK((content(parts / "model.h5") == content(whole / "model.h5")));
  return (whole / "model.h5").string();
}

}  // namespace

TEST_CASE("DeltaProduct networks are trained, resumed, evaluated and inspected like others",
          "[cli][delta][long]") {
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
  const ProgramResult evaluated = run({"eval", file, "--json"});
  check_success(evaluated);
  const auto cells = nlohmann::json::parse(evaluated.output)["cells"];
  CHECK(cells[0]["cell"] == "residual");
  CHECK(cells[0]["layers"][0]["layers"][1]["cell"] == "deltaproduct");
  CHECK(cells[0]["layers"][0]["layers"][1]["form"] == "chunked");
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
  const Arguments cell = small + Arguments{"--factor", "rwkv7", "--decay", "--schedule", "constant"};
  const std::string file = trained_whole_and_in_parts(folder, cell);
  const auto model = std::get<ModelOptions>(read_model_info(file).model);
  const auto& delta = std::get<DeltaProductCell>(std::get<Residual>(model.cells.at(0)).layers.at(1));
  CHECK(delta.factor == DeltaFactorKind::rwkv7);
  const ProgramResult inspected = run({"inspect", file});
  check_success(inspected);
  CHECK_THAT(inspected.output, contains("deltaproduct, recurrent form") && !contains("decay_rates"));
  check_success(run({"eval", file}));
}

TEST_CASE("positions and dropout are parts of a DeltaProduct network", "[cli][delta][long]") {
  const TemporaryFolder folder;
  const Arguments cell =
      small + Arguments{"--positions", "30", "--block-dropout", "0.25", "--schedule", "constant"};
  const std::string file = trained_whole_and_in_parts(folder, cell);
  const auto model = std::get<ModelOptions>(read_model_info(file).model);
  REQUIRE(model.cells.size() == 4);
  CHECK(std::get<Positions>(model.cells[0]).steps == 30);
  for (const std::size_t block : {1, 2})
    CHECK(std::get<Dropout>(std::get<Residual>(model.cells[block]).layers.at(2)).rate == 0.25);
  const ProgramResult inspected = run({"inspect", file});
  check_success(inspected);
  CHECK_THAT(inspected.output, contains("positions") && contains("dropout"));
  check_success(run({"eval", file}));
  const fs::path words = folder / "words";
  check_success(run(Arguments{"train", "words", "--length", "8", "--batch", "4", "--hidden", "8", "--steps",
                              "1", "--positions", "8", "--out", words.string()} +
                    small));
  // A report shows sequences as long as there are positions.
  check_success(run({"report", words.string(), "--out", (folder / "report.html").string()}));
  check_refused(run({"eval", (words / "model.h5").string(), "--lengths", "8,9"}), 2,
                {"--lengths 9", "positions for 8 steps"});
  Hdf5Writer writer;
  writer.dataset("x", Tensor<std::int32_t>(Shape{31, 3}));
  writer.commit(folder / "in.h5");
  check_refused(run({"predict", file, (folder / "in.h5").string(), "-o", (folder / "out.h5").string()}), 1,
                {"31 steps", "vectors for 30"});
}

TEST_CASE("bench train names the recurrences within the blocks", "[cli][delta][bench]") {
  const ProgramResult result = run(Arguments{"bench", "train", "copying", "--delay", "3", "--batch", "2",
                                             "--samples", "1", "--hidden", "4", "--layers", "2"} +
                                   small);
  check_success(result);
  CHECK_THAT(result.output, contains("recurrence 0: deltaproduct, chunked form, N = 4, ") &&
                                contains("recurrence 1: deltaproduct, ") && !contains("recurrence 2") &&
                                !contains("residual"));
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
  refused({"--householder", "65"}, 2, {"--householder", "64"});
  refused({"--positions", "-1"}, 2, {"--positions"});
  refused({"--positions", "3"}, 2, {"--positions 3", "steps of the task's sequences"});
  refused({"--block-dropout", "1"}, 2, {"--block-dropout", "1"});
  refused({"--beta-limit", "2.5"}, 2, {"--beta-limit"});
  refused({"--beta-limit", "0"}, 2, {"--beta-limit", "above 0 and up to 2"});
  refused({"--mlp-size", "9", "--no-mlp"}, 2, {"--mlp-size", "--no-mlp"});
  refused({"--convolution", "65"}, 2, {"--convolution"});
  refused({"--readout-norm", "layer"}, 2, {"--readout-norm"});
  refused({"--reflections", "4"}, 2, {"--reflections", "deltaproduct"});
  refused({"--heads", "1000000000000", "--key-size", "1000000000000"}, 2, {"1000000000000"});
#ifndef __SANITIZE_ADDRESS__  // it ends the program where memory is short
  // A system that promises more memory than it has would end the program later.
  const Arguments large{"--cell", "deltaproduct", "--steps", "1",        "--heads",
                        "65536",  "--key-size",   "65536",   "--device", "cpu"};
  check_refused(run(train_copying(folder / "run", large), {.largest_memory = rlim_t{1} << 32}), 1,
                {"memory"});
#endif
  check_refused(run(train_copying(folder / "run", {"--key-size", "4", "--steps", "1"})), 2,
                {"--key-size", "deltaproduct"});
}

TEST_CASE("inspect follows DeltaProduct layers along a test sequence, as the library does",
          "[cli][delta][inspect]") {
  const TemporaryFolder folder;
  check_success(run(Arguments{"train", "words", "--group", "S3", "--length", "6", "--batch", "4", "--steps",
                              "2", "--hidden", "5", "--out", (folder / "run").string()} +
                    small));
  const std::string file = folder / "run/model.h5";
  const ProgramResult text = run({"inspect", file});
  check_success(text);
  CHECK_THAT(text.output, contains("rotation angles along the first test sequence, of 6 steps") &&
                              contains("\n  cell0/1           0  ") &&
                              contains("\n  cell0/1           1  ") && contains("real: steps"));
  const ProgramResult result = run({"inspect", file, "--json", "--length", "9"});
  check_success(result);
  const auto json = nlohmann::json::parse(result.output)["delta_products"];
  CHECK(json["steps"] == 9);
  CHECK(json["layers"].size() == 1);
  CHECK(json["layers"][0]["layer"] == "cell0/1");

  ModelFileInfo info;
  const auto model = load_model(file, {}, &info);
  const auto task = make_task(info.task_config, {.batch = 1, .seed = info.seed})->with_length(9, 1);
  Batch batch;
  task->evaluation_batch(HeldOut::test, 0, batch);
  const Index last[] = {8};
  const auto found = observe_delta_products<float>(*model, batch, last);
  REQUIRE(found.size() == 1);
  REQUIRE(json["layers"][0]["heads"].size() == 2);
  for (std::size_t h = 0; h < 2; ++h) {
    const auto& head = json["layers"][0]["heads"][h];
    const auto& betas = found[0].heads[h].betas;
    REQUIRE(betas.size() == 18);
    CHECK(head["beta"]["min"] == *std::ranges::min_element(betas));
    CHECK(head["beta"]["max"] == *std::ranges::max_element(betas));
    CHECK(head["effective_rank"]["last"].get<double>() == Approx(found[0].heads[h].ranks[0]));
    CHECK(head["share_of_real_eigenvalues"].get<double>() ==
          Approx(static_cast<double>(found[0].heads[h].real_steps) / 9));
    CHECK(head["rotation_degrees"].is_null() == found[0].heads[h].angles.empty());
  }
}

TEST_CASE("report draws what DeltaProduct layers do", "[cli][delta][report][long]") {
  const TemporaryFolder folder;
  const auto train = [&](const char* name, const Arguments& more) {
    check_success(run(Arguments{"train", "words", "--group", "S3", "--length", "6", "--batch", "4", "--steps",
                                "2", "--hidden", "5", "--out", (folder / name).string()} +
                      small + more));
  };
  train("two", {"--layers", "2"});
  train("one", {"--householder", "1"});
  const fs::path out = folder / "page.html";
  const auto page_of = [&](const Arguments& names) {
    Arguments command = {"report", "--out", out.string()};
    for (const std::string& name : names) command.push_back((folder / name).string());
    check_success(run(command));
    const std::string page = content(out);
    check_self_contained(page);
    return page;
  };
  const std::string both = page_of({"two", "one"});
  for (const char* words : {"DeltaProduct layers", "beta", "effective rank", "angle [degrees]"})
    CHECK_THAT(both, contains(words));
  // A layer's line is in the plot of step sizes; in the others its name has brackets.
  CHECK(lines_named(both, "two, cell0/1") == 1);
  CHECK(lines_named(both, "two, cell1/1 (6)") == 1);
  CHECK(lines_named(both, "one (6)") == 2);  // that of the accuracies too
  CHECK(occurrences(both, "(real: ") >= 2);
  // Angles are those of two factors.
  CHECK(plots_in(both) - plots_in(page_of({"one"})) == 1);
}

TEST_CASE("inspect says why DeltaProduct layers are not followed", "[cli][delta][inspect][long]") {
  const TemporaryFolder folder;
  const auto not_computed = [&](const std::string& file, const char* why) {
    const ProgramResult result = run({"inspect", file, "--json"});
    check_success(result);
    CHECK_THAT(nlohmann::json::parse(result.output)["delta_products"].value("not_computed", ""),
               contains(why));
    CHECK_THAT(run({"inspect", file}).output, contains("not computed: ") && contains(why));
  };
  // 1. A model without a task.
  const std::string alone = folder / "alone.h5";
  save_model(alone, SequenceModel<float>(Device::cpu(), {.input = OneHot{3}, .cells = {DeltaProductCell{}}}));
  not_computed(alone, "saved without a task");
  // 2. A task whose data are elsewhere.
  write_tiny_mnist(folder / "data");
  check_success(run(train_mnist(folder / "data", folder / "mnist", small + Arguments{"--steps", "1"})));
  fs::rename(folder / "data", folder / "moved");
  not_computed(folder / "mnist/model.h5", "config.toml' names this place");
  const ProgramResult with_data =
      run({"inspect", folder / "mnist/model.h5", "--data", (folder / "moved").string()});
  check_success(with_data);
  CHECK_THAT(with_data.output, !contains("not computed"));
  // 3. A sequence that is too long. The longest one that is not may have an odd number of steps.
  check_success(
      run(Arguments{"train", "recall", "--keys", "2", "--symbols", "12", "--length", "10", "--batch", "1",
                    "--steps", "1", "--hidden", "5", "--out", (folder / "recall").string()} +
          small));
  const std::string of_recall = folder / "recall/model.h5";
  Hdf5Edit(of_recall).replace_in_text("/", "config", "\"length\":10", "\"length\":2147483646");
  const ProgramResult long_one = run({"inspect", of_recall});
  check_success(long_one);
  CHECK_THAT(long_one.output, contains("not computed: ") || contains("\n  cell0/1           0  "));
  // 4. Lengths that cannot be.
  const Arguments words = {"train", "words",   "--length", "6",        "--batch",
                           "4",     "--steps", "1",        "--hidden", "5"};
  check_success(run(words + small + Arguments{"--out", (folder / "words").string()}));
  const std::string of_words = folder / "words/model.h5";
  check_refused(run({"inspect", of_words, "--length", "2000000000"}), 2, {"--length 2000000000", "at most"});
  check_refused(run({"inspect", of_words, "--length", "0"}), 2, {"--length"});
  check_success(run(train_copying(folder / "copying", small + Arguments{"--steps", "1"})));
  CHECK_THAT(run({"inspect", folder / "copying/model.h5"}).output, contains("cell0/1"));
  check_refused(run({"inspect", folder / "copying/model.h5", "--length", "7"}), 2, {"--length", "copying"});
  check_success(run(words + Arguments{"--cell", "gru", "--out", (folder / "gru").string()}));
  check_refused(run({"inspect", folder / "gru/model.h5", "--length", "7"}), 2, {"--length", "DeltaProduct"});
  CHECK_FALSE(nlohmann::json::parse(run({"inspect", folder / "gru/model.h5", "--json"}).output)
                  .contains("delta_products"));
}

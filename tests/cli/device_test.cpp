// The program on a GPU, or on an emulated one.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "linalg/decompositions.hpp"
#include "orthornn/delta/delta_product.hpp"
#include "support/gpu.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

/// The program where it sees the GPU, told to use it.
ProgramResult run_on_gpu(const Arguments& arguments,
                         const std::map<std::string, std::string>& variables = {}) {
  return run(arguments + Arguments{"--device", "cuda"}, {.variables = variables, .gpu = true});
}

Json json_of(const Arguments& bench, const fs::path& file) {
  const ProgramResult result = run_on_gpu(bench + Arguments{"--json", file.string()});
  check_success(result);
  return Json::parse(content(file));
}

void check_machine(const Json& fields, const std::string& precision) {
  CHECK(fields.at("device") == "cuda:0");
  CHECK(fields.at("precision") == precision);
  CHECK(fields.at("threads").get<int>() >= 1);
  CHECK(fields.at("processor") == properties_of(Device::cpu()).name);
  const DeviceProperties gpu = properties_of(Device::cuda());
  CHECK(fields.at("gpu") == Json({{"name", gpu.name},
                                  {"compute_capability", gpu.compute_capability},
                                  {"memory_bytes", gpu.memory_bytes},
                                  {"multiprocessors", gpu.multiprocessors},
                                  {"clock_mhz", gpu.clock_mhz},
                                  {"driver_cuda", gpu.driver_cuda},
                                  {"cuda", gpu.cuda}}));
}

/// Backward is a difference, which noise may turn; what was measured is not.
void check_samples(const Json& result, std::size_t samples) {
  CHECK(result.at("total_ms").get<double>() > 0);
  for (const char* part : {"forward", "backward", "total"}) {
    CHECK(result.at(std::string(part) + "_samples_ms").size() == samples);
  }
  for (std::size_t i = 0; i < samples; ++i) {
    CHECK(result["forward_samples_ms"][i].get<double>() > 0);
    CHECK(result["total_samples_ms"][i].get<double>() > 0);
    CHECK(result["total_samples_ms"][i].get<double>() ==
          Approx(result["forward_samples_ms"][i].get<double>() +
                 result["backward_samples_ms"][i].get<double>()));
  }
}

/// The column of metrics.csv with the training loss.
std::vector<double> losses(const fs::path& run_folder) {
  std::ifstream stream(run_folder / "metrics.csv");
  std::vector<double> found;
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    const std::size_t at = line.find(',', line.find(',') + 1) + 1;
    found.push_back(std::stod(line.substr(at)));
  }
  return found;
}

}  // namespace

TEST_CASE("a training on a GPU goes on on the CPU", "[cli][cuda]") {
  if (!gpu()) return;
  const TemporaryFolder folder;
  const fs::path moved = folder / "moved", whole = folder / "whole";
  // A schedule that does not depend on the number of steps.
  const Arguments every = {"--log-every", "1", "--eval-every", "6", "--schedule", "constant"};
  const ProgramResult begun = run_on_gpu(train_copying(
      moved, every + Arguments{"--steps", "3", "--precision", "tf32", "--rollout", "stepwise", "--verbose"}));
  check_success(begun);
  for (const std::string& words : {"on cuda:0 (" + description(Device::cuda()) + "), tf32\n",
                                   std::string("recurrence 0: cwy, dense form, N = 8, stepwise rollout of 23 "
                                               "steps and 4 sequences on cuda:0")}) {
    CHECK_THAT(begun.output, contains(words));
  }
  const std::string config = content(moved / "config.toml");
  for (const char* line : {"\ndevice = \"cuda\"\n", "\nprecision = \"tf32\"\n", "\nrollout = \"stepwise\"\n"})
    CHECK_THAT(config, contains(line));

  // The settings of the run are taken along, and one that the CPU has not is pointed out.
  const Arguments go_on = {"train", "--resume", "--steps", "6", "--out", moved.string(), "--device", "cpu"};
  check_refused(run(go_on), 2, {"--precision tf32", "--precision fp32"});
  const ProgramResult ended = run(go_on + Arguments{"--precision", "fp32", "--rollout", "automatic"});
  check_success(ended);
  CHECK_THAT(ended.output, contains("going on after step 3"));
  CHECK(steps_in(moved / "model.h5") == 6);

  check_success(run(train_copying(whole, every + Arguments{"--steps", "6"})));
  const std::vector<double> expected = losses(whole), found = losses(moved);
  REQUIRE(found.size() == 6);
  REQUIRE(expected.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(found[i] == Approx(expected[i]).epsilon(5e-3));
}

TEST_CASE("eval and predict on a GPU give what they give on the CPU", "[cli][cuda]") {
  if (!gpu()) return;
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "2"})));
  const std::string model = folder / "run/model.h5", input = folder / "x.h5";
  const ProgramResult result = run_on_gpu({"eval", model, "--json", "--verbose"});
  check_success(result);
  const Json json = Json::parse(result.output);
  check_machine(json, "fp32");
  CHECK(json.at("cells") ==
        Json::array({{{"cell", "cwy"}, {"form", "dense"}, {"hidden", 8}, {"rollout", "resident"}}}));
  const Json on_cpu = Json::parse(run({"eval", model, "--json"}).output);
  CHECK(on_cpu.at("device") == "cpu");
  CHECK_FALSE(on_cpu.contains("gpu"));
  CHECK(json.at("cross_entropy").get<double>() ==
        Approx(on_cpu.at("cross_entropy").get<double>()).epsilon(1e-4));

  Tensor<std::int32_t> symbols({5, 2});
  for (Index i = 0; i < symbols.size(); ++i) symbols.data()[i] = static_cast<std::int32_t>(i % 10);
  Hdf5Writer writer;
  writer.dataset("x", TensorView<const std::int32_t>(symbols));
  writer.commit(input);
  const auto predict = [&](const char* name) {
    return Arguments{"predict", model, input, "-o", (folder / name).string(), "--verbose"};
  };
  const ProgramResult predicted = run_on_gpu(predict("gpu.h5") + Arguments{"--rollout", "cluster"});
  check_success(predicted);
  CHECK_THAT(predicted.output, contains("cluster rollout of 5 steps and 2 sequences on cuda:0"));
  check_success(run(predict("cpu.h5")));
  const auto found = Hdf5Reader(folder / "gpu.h5").read<float>("logits");
  const auto expected = Hdf5Reader(folder / "cpu.h5").read<float>("logits");
  REQUIRE(found.size() == expected.size());
  for (Index i = 0; i < found.size(); ++i) CHECK(found.data()[i] == Approx(expected.data()[i]).margin(1e-4));
}

TEST_CASE("the device auto takes the GPU that is there", "[cli][cuda]") {
  if (!gpu()) return;
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const Arguments eval = {"eval", folder / "run/model.h5", "--json"};
  CHECK(Json::parse(run(eval, {.gpu = true}).output).at("device") == "cuda:0");
  CHECK(Json::parse(run(eval).output).at("device") == "cpu");
  CHECK(Json::parse(run(eval + Arguments{"--device", "cpu"}, {.gpu = true}).output).at("device") == "cpu");
}

TEST_CASE("a rollout that the sizes forbid is refused before anything is written", "[cli][cuda]") {
  if (!gpu()) return;
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_refused(run_on_gpu({"train", "copying", "--delay", "3", "--batch", "2", "--hidden", "200",
                            "--rollout", "resident", "--out", out.string()}),
                2, {"--rollout resident", "200", "192", "automatic"});
  CHECK_FALSE(fs::exists(out));
  check_refused(run_on_gpu({"bench", "rollout", "--cells", "householder", "--hidden", "6", "--batch", "2",
                            "--length", "2", "--rollout", "cluster"}),
                2, {"--rollout cluster", "sequential form", "automatic"});
  // Noticed before anything is measured.
  const ProgramResult mixed = run_on_gpu({"bench", "rollout", "--cells", "free", "--hidden", "6,193",
                                          "--batch", "2", "--length", "2", "--rollout", "resident"});
  check_refused(mixed, 2, {"193"});
  CHECK(mixed.output.empty());
}

TEST_CASE("a part of a GPU that has no room for a cluster goes step by step", "[cli][cuda]") {
  if (!gpu()) return;
  if (properties_of(Device::cuda()).name != "emulated GPU") {
    std::printf("skipped: only an emulated GPU can be made small\n");
    return;
  }
  const Arguments rollout = {"bench",   "rollout", "--cells",  "free", "--hidden",  "193",
                             "--batch", "2",       "--length", "2",    "--samples", "1"};
  const std::map<std::string, std::string> small = {{"ORTHORNN_EMULATED_SMS", "7"}};
  const ProgramResult result = run_on_gpu(rollout, small);
  check_success(result);
  CHECK_THAT(result.output, contains("stepwise"));
  check_refused(run_on_gpu(rollout + Arguments{"--rollout", "cluster"}, small), 2,
                {"the rollout cannot be cluster", "part of a GPU", "use automatic"});
}

TEST_CASE("a GPU with too little memory is one clear line", "[cli][cuda]") {
  if (!gpu()) return;
  if (properties_of(Device::cuda()).name != "emulated GPU") {
    std::printf("skipped: only an emulated GPU's memory can be made small\n");
    return;
  }
  const TemporaryFolder folder;
  // For nothing at all; for the libraries alone; for the model, but not for all that a step takes.
  for (const char* bytes : {"100000", "33700000", "34400000"}) {
    CAPTURE(bytes);
    check_refused(run_on_gpu(Arguments{"train", "copying", "--delay", "3", "--hidden", "100", "--batch", "4",
                                       "--steps", "1", "--out", folder / bytes},
                             {{"ORTHORNN_EMULATED_MEMORY", bytes}}),
                  1, {"out of memory", "use a smaller batch or model"});
    CHECK_FALSE(fs::exists(folder / bytes / "model.h5"));
  }
}

TEST_CASE("bench rollout on a GPU times forward and both, and says how", "[cli][bench][cuda]") {
  if (!gpu()) return;
  const TemporaryFolder folder;
  const Arguments sizes = {"--hidden", "6", "--reflections", "3", "--batch", "2", "--length", "4"};
  const Json results =
      json_of(Arguments{"bench", "rollout", "--cells", "cwy,cwy-factored,householder,expm,lstm,gru",
                        "--precision", "bf16", "--samples", "3"} +
                  sizes,
              folder / "a.json");
  REQUIRE(results.size() == 6);
  const char* ways[] = {"resident", "stepwise", "stepwise", "resident"};
  for (std::size_t i = 0; i < 6; ++i) {
    const Json& result = results[i];
    CAPTURE(result.dump());
    check_machine(result, "bf16");
    check_samples(result, 3);
    if (i < 4) CHECK(result.at("rollout") == ways[i]);
    CHECK_FALSE(result.at("rollout").get<std::string>().empty());
    CHECK(result.at("step_us").get<double>() == Approx(result.at("total_ms").get<double>() * 1e3 / 4));
    CHECK(result.at("gflops").get<double>() > 0);
    for (const char* absent : {"gemm_gflops", "share_of_gemm"}) CHECK_FALSE(result.contains(absent));
  }
  const ProgramResult cluster = run_on_gpu(
      Arguments{"bench", "rollout", "--cells", "cwy", "--rollout", "cluster", "--samples", "1"} + sizes);
  check_success(cluster);
  for (const char* words : {"us/step", " cluster ", "cuda:0 ("}) CHECK_THAT(cluster.output, contains(words));
  CHECK_THAT(cluster.output, !contains("GEMM"));
}

TEST_CASE("bench prepare on a GPU takes more samples than on the CPU", "[cli][bench][cuda]") {
  if (!gpu()) return;
  const TemporaryFolder folder;
  const Json results =
      json_of({"bench", "prepare", "--cells", "cwy,cayley", "--hidden", "5"}, folder / "p.json");
  REQUIRE(results.size() == 2);
  for (const Json& result : results) {
    check_machine(result, "fp32");
    check_samples(result, 20);
    CHECK_FALSE(result.contains("rollout"));
  }
}

TEST_CASE("bench train times whole steps", "[cli][bench][cuda]") {
  const bool on_gpu = gpu().has_value();
  const TemporaryFolder folder;
  const Arguments bench = {"bench", "train",     "copying", "--delay",     "3",    "--hidden", "6", "--batch",
                           "2",     "--samples", "2",       "--optimizer", "adam", "--layers", "2"};
  const auto check = [&](const Json& json, int steps) {
    CHECK(json.at("benchmark") == "train");
    CHECK(json.at("task") == Json({{"task", "copying"}, {"delay", 3}}));
    CHECK(json.at("batch") == 2);
    CHECK(json.at("length") == 23);
    CHECK(json.at("optimizer") == "adam");
    CHECK(json.at("cells").size() == 2);
    CHECK(json.at("steps_per_sample") == steps);
    const std::vector<double> samples = json.at("step_samples_ms");
    REQUIRE(samples.size() == 2);
    CHECK(samples[0] > 0);
    CHECK(json.at("step_ms").get<double>() == Approx((samples[0] + samples[1]) / 2));
    CHECK(json.at("sequences_per_second").get<double>() == Approx(2e3 / json.at("step_ms").get<double>()));
  };
  const std::string file = folder / "t.json";
  const ProgramResult on_cpu = run(bench + Arguments{"--json", file});
  check_success(on_cpu);
  CHECK_THAT(on_cpu.output, contains("a training step: "));
  check(Json::parse(content(file)), 1);
  CHECK(Json::parse(content(file)).at("cells")[0].at("rollout") == "stepwise");
  check_refused(run({"bench", "train"}), 2, {"which task"});
  check_refused(run({"bench", "train", "copying", "--steps", "3"}), 2, {"--steps"});
  check_refused(run({"bench", "train", "adding", "--delay", "3"}), 2, {"--delay", "copying"});
  if (!on_gpu) return;
  const Json json = json_of(bench, folder / "gpu.json");
  check(json, 10);
  check_machine(json, "fp32");
  CHECK(json.at("cells")[1].at("rollout") == "resident");
}

TEST_CASE("bench delta-product on a GPU times the forms that it has", "[cli][bench][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const TemporaryFolder folder;
  const std::string file = folder / "d.json";
  const ProgramResult result =
      run_on_gpu({"bench", "delta-product", "--householder", "2", "--length", "20", "--heads", "2", "--key",
                  "5", "--value", "7", "--gated", "--samples", "2", "--json", file});
  check_success(result);
  const Json json = Json::parse(content(file));
  REQUIRE(json.size() == (has_chunked_form(*device) ? 2 : 1));
  CHECK(json[0].at("form") == "recurrent");
  for (const Json& row : json) {
    check_machine(row, "fp32");
    check_samples(row, 2);
    CHECK(row.at("gflops").get<double>() > 0);
    CHECK_FALSE(row.contains("gemm_gflops"));
  }
}

TEST_CASE("bench rank-one-chain and position-scores on a GPU time both rows", "[cli][bench][cuda]") {
  if (!gpu()) return;
  const std::string command = GENERATE("rank-one-chain", "position-scores"),
                    precision = GENERATE("fp32", "fp64");
  const TemporaryFolder folder;
  const std::string file = folder / "b.json";
  check_success(run_on_gpu({"bench", command, "--length", "40", "--heads", "2", "--size", "5", "--chunk",
                            "99", "--precision", precision, "--samples", "2", "--json", file}));
  const Json json = Json::parse(content(file));
  REQUIRE(json.size() == 2);
  CHECK(json[1].at("chunk") == 32);
  for (const Json& row : json) {
    check_machine(row, precision);
    check_samples(row, 2);
    CHECK(row.at("gflops").get<double>() > 0);
    CHECK_FALSE(row.contains("gemm_gflops"));
  }
}

TEST_CASE("bench compare on a GPU leaves out what the build lacks there, and says so",
          "[cli][compare][cuda]") {
  if (!gpu()) return;
  const bool decomposes = has_decompositions(*gpu());
  const TemporaryFolder folder;
  const std::string file = folder / "c.json";
  const ProgramResult result =
      run_on_gpu({"bench", "compare", "--hidden", "6", "--reflections", "3", "--batch", "2", "--length", "3",
                  "--samples", "2", "--verbose", "--json", file});
  CHECK(result.exit_code == 0);
  const Json json = Json::parse(content(file));
  check_machine(json.at("machine"), "fp32");
  CHECK_THAT(json.at("command").get<std::string>(), contains("--device cuda --precision fp32 --threads"));
  for (const char* list : {"training_step", "construction"}) {
    std::size_t ours = 0;
    for (const Json& timed : json.at(list)) {
      CAPTURE(timed.dump());
      check_samples(timed, 2);
      CHECK(timed.at("warmed_up") == true);
      CHECK(timed.contains("rollout") == (list == std::string("training_step")));
      ours += !timed.at("method").get<std::string>().starts_with("cudnn-");
    }
    const std::size_t needs_decompositions = decomposes ? 1 : 0;  // own
    CHECK(ours == (list == std::string("training_step") ? 9 : 7) + needs_decompositions);
  }
  CHECK(json.at("stiefel").size() == 5);
  for (const Json& step : json.at("stiefel")) {
    CHECK(step.contains("total_ms") == (decomposes || step.at("method") == "t-cwy"));
    CHECK(step.contains("mflop"));
  }
  const std::string not_timed = decomposes ? "" : "; not in this build on this device";
  CHECK_THAT(result.output, contains("\nRGD-C-C   28 N M^2 + 16 M^3" + not_timed + "\n"));
  CHECK_THAT(result.output, contains("\nCWY, N = 6, L = 3: dense form, resident rollout\n"));
}

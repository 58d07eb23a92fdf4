// The choice between the forms of CWY, and the way through time on the CPU. transition_device_test.cpp and
// rollout_device_test.cpp have those on a GPU.

#include "products/plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "orthornn/orthogonal/transition.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "test_paths.hpp"

namespace orthornn::testing {
namespace {

TEST_CASE("the form that was faster on an H200 is taken, for batches of 16, 128 and 1024", "[plan]") {
  std::ifstream file(std::filesystem::path(ORTHORNN_SOURCE_DIR) / "tools/bench-results/h200-forms.csv");
  std::string line;
  std::getline(file, line);
  REQUIRE(line == "precision,batch,length,hidden,reflections,dense_us,factored_us");
  std::map<std::pair<double, bool>, int> rows;
  // Squares of the errors of estimates, and their number: in fp32, and in tf32 and bf16.
  std::array<std::pair<double, int>, 2> errors{};
  while (std::getline(file, line)) {
    std::string precision;
    double batch, length, hidden, reflections, dense_us, factored_us;
    char comma;
    std::istringstream fields(line);
    std::getline(fields, precision, ',');
    fields >> batch >> comma >> length >> comma >> hidden >> comma >> reflections >> comma >> dense_us >>
        comma >> factored_us;
    REQUIRE(fields);
    CAPTURE(line);
    const bool dense = dense_us <= factored_us;
    CHECK(dense_is_cheaper(hidden, reflections, operations_to_save(parse<Precision>(precision), batch)) ==
          dense);
    ++rows[{batch, dense}];
    const bool is_far_off = precision == "fp32" && batch == 16 && hidden == 768 && reflections == 128;
    if (is_far_off) continue;
    const double estimate = factored_step_us(hidden, reflections, batch, parse<Precision>(precision));
    auto& [squares, count] = errors[precision == "fp32" ? 0 : 1];
    squares += std::pow(estimate / factored_us - 1, 2);
    ++count;
  }
  // As the comment of the estimate says.
  const auto root_mean_square = [](const auto& of) { return std::sqrt(of.first / of.second); };
  CHECK(root_mean_square(errors[0]) < 0.115);
  CHECK(root_mean_square(errors[1]) < 0.085);
  // Both forms are the faster one somewhere, with each batch.
  for (const double batch : {16.0, 128.0, 1024.0}) {
    CAPTURE(batch);
    CHECK(rows[{batch, true}] > 2);
    CHECK(rows[{batch, false}] > 1);
  }
}

TEST_CASE("on the CPU the form is taken that was fastest for this batch and length", "[plan]") {
  std::ifstream file(std::filesystem::path(ORTHORNN_SOURCE_DIR) / "tools/bench-results/cpu-forms.csv");
  std::string line;
  std::getline(file, line);
  REQUIRE(line == "batch,length,hidden,reflections,dense_ms,factored_ms,sequential_ms");
  double logarithms = 0, rows = 0;
  std::map<ReflectionForm, int> taken;
  while (std::getline(file, line)) {
    double batch, length, hidden, reflections, dense, factored, sequential;
    char comma;
    std::istringstream fields(line);
    fields >> batch >> comma >> length >> comma >> hidden >> comma >> reflections >> comma >> dense >>
        comma >> factored >> comma >> sequential;
    REQUIRE(fields);
    CAPTURE(line);
    const ReflectionForm form = fastest_form_on_cpu(hidden, reflections, length, batch, 16);
    const double time = form == ReflectionForm::dense      ? dense
                        : form == ReflectionForm::factored ? factored
                                                           : sequential;
    const double ratio = time / std::min({dense, factored, sequential});
    // Steps of some microseconds differ by that from sample to sample.
    CHECK(ratio < (time < 0.1 ? 2 : 1.5));
    logarithms += std::log(ratio);
    ++rows;
    ++taken[form];
  }
  CHECK(std::exp(logarithms / rows) < 1.05);
  CHECK(taken[ReflectionForm::dense] > 20);
  CHECK(taken[ReflectionForm::factored] > 20);
  CHECK(taken[ReflectionForm::sequential] > 20);
}

TEST_CASE("on the CPU the automatic form knows the expected batch and length", "[plan]") {
  const auto form = [](Index length, Index batch, Index n, Index l) {
    Execution execution;
    execution.expected_length = length;
    execution.expected_batch = batch;
    return make_transition<float>(Cwy{.reflections = l}, n, execution)->form();
  };
  CHECK(form(2, 128, 256, 256) == "sequential");
  CHECK(form(10, 16, 256, 256) == "sequential");
  CHECK(form(1000, 128, 256, 256) == "dense");
  CHECK(form(1000, 128, 256, 32) == "factored");
  CHECK(form(50, 1, 256, 256) == "factored");
  CHECK(form(10, 8, 64, 64) == "factored");
  // A tile of doubles has half as many columns.
  Execution execution;
  execution.expected_length = 10;
  execution.expected_batch = 8;
  CHECK(make_transition<double>(Cwy{}, 64, execution)->form() == "sequential");
}

TEST_CASE("on the CPU every rollout is stepwise", "[plan]") {
  for (const RolloutWay way :
       {RolloutWay::automatic, RolloutWay::resident, RolloutWay::cluster, RolloutWay::grid}) {
    CHECK(planned_way<float>("dense", 64, 10, 4, {Device::cpu(), Precision::fp32, way}) ==
          RolloutWay::stepwise);
  }
}

TEST_CASE("a gated recurrence goes over the grid or step by step", "[plan]") {
  const auto way = [](RolloutWay asked) {
    return planned_gated_way<float>("lstm", 4, 64, 10, 4, {Device::cpu(), Precision::fp32, asked});
  };
  CHECK(way(RolloutWay::automatic) == RolloutWay::stepwise);
  CHECK(way(RolloutWay::grid) == RolloutWay::stepwise);
  for (const RolloutWay other : {RolloutWay::resident, RolloutWay::cluster})
    check_says<ValueError>([&] { way(other); }, {"lstm", name_of(other), "automatic"});
}

}  // namespace
}  // namespace orthornn::testing

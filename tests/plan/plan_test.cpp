// The choice between the forms of CWY, and the way through time on the CPU. transition_device_test.cpp and
// rollout_device_test.cpp have those on a GPU.

#include "plan/plan.hpp"

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "test_paths.hpp"

namespace orthornn::testing {
namespace {

TEST_CASE("the form that was faster on an H200 is taken, for batches of 16, 128 and 1024", "[plan]") {
  std::ifstream file(std::filesystem::path(ORTHORNN_SOURCE_DIR) / "tools/bench-results/h200-forms.csv");
  std::string line;
  std::getline(file, line);
  REQUIRE(line == "precision,batch,length,hidden,reflections,dense_us,factored_us");
  std::map<std::pair<double, bool>, int> rows;
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
  }
  // Both forms are the faster one somewhere, with each batch.
  for (const double batch : {16.0, 128.0, 1024.0}) {
    CAPTURE(batch);
    CHECK(rows[{batch, true}] > 2);
    CHECK(rows[{batch, false}] > 1);
  }
}

TEST_CASE("on the CPU the form with fewer operations is taken", "[plan]") {
  // 6 N^2 against 12 N L + 2 L^2: the border is at L = 0.46 N.
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Execution execution(Device::cpu(), precision);
    CHECK_FALSE(dense_is_faster<float>(1000, 464, execution));
    CHECK(dense_is_faster<float>(1000, 465, execution));
    CHECK_FALSE(dense_is_faster<double>(1000, 464, execution));
    CHECK(dense_is_faster<double>(1000, 465, execution));
  }
}

TEST_CASE("on the CPU every rollout is stepwise", "[plan]") {
  for (const RolloutWay way : {RolloutWay::automatic, RolloutWay::resident, RolloutWay::cluster}) {
    CHECK(planned_way<float>("dense", 64, 10, 4, {Device::cpu(), Precision::fp32, way}) ==
          RolloutWay::stepwise);
  }
}

}  // namespace
}  // namespace orthornn::testing

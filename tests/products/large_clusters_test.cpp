// What steps over large clusters are expected to take, against what they took on an H200.

#include "cuda/products/large_clusters.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "support/catch.hpp"
#include "test_paths.hpp"

namespace orthornn::testing {

TEST_CASE("a step over a large cluster takes about what it was expected to", "[plan]") {
  std::ifstream file(std::filesystem::path(ORTHORNN_SOURCE_DIR) /
                     "tools/bench-results/h200-large-clusters.csv");
  std::string line;
  std::getline(file, line);
  REQUIRE(line ==
          "size,blocks,rows,kept,group,groups,exchange,batch,spilled_bytes,forward_us,backward_us,step_us");
  // Of one sequence those that store each number in the other blocks, of more those that send octets.
  std::map<std::array<int, 6>, double> measured;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::array<int, 6> shape{};
    char comma;
    for (int& number : shape) fields >> number >> comma;
    std::string exchange, number;
    std::getline(fields, exchange, ',');
    for (int i = 0; i < 5; ++i) std::getline(fields, number, ',');
    CAPTURE(line);
    REQUIRE(fields);
    if ((exchange == "words") == (shape[4] == 1)) measured[shape] = std::stod(number);
  }
  double squares = 0;
  int count = 0;
  const auto compare = [&](const cuda::ClusterShape& x) {
    CAPTURE(x.size, x.blocks, x.group, x.groups);
    const auto found = measured.find({x.size, x.blocks, x.rows, x.kept, x.group, x.groups});
    REQUIRE(found != measured.end());
    squares += std::pow(x.step_us() / found->second - 1, 2);
    ++count;
  };
  for (const cuda::ClusterShape& shape : cuda::one_sequence_clusters) compare(shape);
  for (const cuda::ClusterShape& shape : cuda::large_clusters) compare(shape);
  // As the comment of the estimate says.
  CHECK(std::sqrt(squares / count) < 0.065);
}

}  // namespace orthornn::testing

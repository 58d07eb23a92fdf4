// orthornn bench: its JSON.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/bench_samples.hpp"
#include "cli/run_program.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Json bench(const Arguments& arguments, const fs::path& file) {
  const ProgramResult result =
      run(Arguments{"bench"} + arguments + Arguments{"--samples", "3", "--json", file.string()});
  check_success(result);
  CHECK_THAT(result.output, contains(file.string()));
  return Json::parse(content(file));
}

void check_cpu_times(const Json& result, const char* precision = "fp32") {
  check_three_samples(result);
  for (const char* part : {"forward_samples_ms", "backward_samples_ms"}) {
    CAPTURE(part);
    for (const double sample : result.at(part)) CHECK(sample > 0);
  }
  CHECK(result.at("device") == "cpu");
  CHECK(result.at("precision") == precision);
  CHECK(result.at("threads").get<int>() >= 1);
}

}  // namespace

TEST_CASE("bench rollout times every cell at every size", "[cli][bench]") {
  const TemporaryFolder folder;
  const Json results =
      bench({"rollout", "--cells", "cwy,cwy-factored,householder,householder-rank-one,cayley,expm,free",
             "--hidden", "6,9", "--reflections", "0,4,6", "--batch", "3", "--length", "5", "--activation",
             "tanh", "--threads", "1"},
            folder / "rollout.json");
  // Four with reflections (6 and 4; 9, 4 and 6), three without, at two sizes.
  REQUIRE(results.size() == 26);
  int cwy = 0;
  for (const Json& result : results) {
    CAPTURE(result.dump());
    check_cpu_times(result);
    for (const char* rate : {"gflop", "gflops", "gemm_gflops", "share_of_gemm"}) {
      CHECK(result.at(rate).get<double>() > 0);
    }
    CHECK(result.at("benchmark") == "rollout");
    CHECK(result.at("batch") == 3);
    CHECK(result.at("length") == 5);
    CHECK(result.at("activation") == "tanh");
    CHECK(result.at("orthogonality_error").get<double>() < 1e-5);
    CHECK(result.at("threads") == 1);
    const int hidden = result.at("hidden"), reflections = result.at("reflections");
    CHECK((hidden == 6 || hidden == 9));
    const std::string cell = result.at("cell");
    if (cell == "cayley" || cell == "expm" || cell == "free") {
      CHECK(reflections == 0);
    } else {
      CHECK((reflections == 4 || reflections == 6 || reflections == hidden));
    }
    if (cell == "cwy-factored") CHECK(result.at("form") == "factored");
    if (cell == "cayley") CHECK(result.at("form") == "dense");
    cwy += cell == "cwy";
  }
  CHECK(cwy == 5);
}

TEST_CASE("bench rollout times LSTM and GRU as whole layers", "[cli][bench]") {
  const TemporaryFolder folder;
  const Json results = bench({"rollout", "--cells", "lstm,gru,free", "--hidden", "6", "--reflections", "0,4",
                              "--batch", "3", "--length", "5", "--threads", "1"},
                             folder / "rollout.json");
  REQUIRE(results.size() == 3);
  for (const std::size_t i : {0, 1}) {
    const Json& result = results[i];
    CAPTURE(result.dump());
    check_cpu_times(result);
    CHECK(result.at("cell") == (i == 0 ? "lstm" : "gru"));
    CHECK(result.at("rollout") == "stepwise");
    CHECK(result.at("input_size") == 10);
    for (const char* absent : {"activation", "orthogonality_error"}) CHECK_FALSE(result.contains(absent));
    // G gates' products with N + 10 numbers, forward, backward and for the weights, at 15 steps of a
    // sequence.
    const double gates = i == 0 ? 4 : 3;
    CHECK(result.at("gflop").get<double>() == Approx(6 * gates * 6 * (6 + 10) * 15 * 1e-9));
    CHECK(result.at("share_of_gemm").get<double>() > 0);
  }
  CHECK_FALSE(results[2].contains("input_size"));
}

TEST_CASE("bench prepare times the forming of Q", "[cli][bench]") {
  const TemporaryFolder folder;
  const Json results =
      bench({"prepare", "--cells", "cwy,expm", "--hidden", "6", "--reflections", "2"}, folder / "p.json");
  REQUIRE(results.size() == 2);
  for (const Json& result : results) {
    check_cpu_times(result);
    CHECK(result.at("benchmark") == "prepare");
    CHECK(result.at("hidden") == 6);
    CHECK(result.contains("batch"));
    CHECK(result.contains("length"));
    for (const char* rate : {"gflop", "gflops", "gemm_gflops", "share_of_gemm"})
      CHECK_FALSE(result.contains(rate));
  }
  CHECK(results[0].at("cell") == "cwy");
  CHECK(results[0].at("reflections") == 2);
  CHECK(results[1].at("cell") == "expm");
}

TEST_CASE("bench without --json prints a table", "[cli][bench]") {
  const ProgramResult result = run({"bench", "rollout", "--cells", "cwy", "--hidden", "6", "--batch", "2",
                                    "--length", "2", "--samples", "1"});
  check_success(result);
  for (const char* words : {"cwy", "forward ms", "backward ms", "GFLOP/s", "Eigen"}) {
    CHECK_THAT(result.output, contains(words));
  }
}

TEST_CASE("bench rollout says what CWY gains, at each size where it can", "[cli][bench]") {
  const auto bench = [](const char* command, const char* cells) {
    Arguments arguments = {"bench", command,         "--cells", cells,       "--hidden",
                           "6,9",   "--reflections", "4",       "--samples", "1"};
    if (command == std::string("rollout")) arguments = arguments + Arguments{"--batch", "2", "--length", "2"};
    const ProgramResult result = run(arguments);
    check_success(result);
    return result.output;
  };
  const std::string both = bench("rollout", "cwy,householder,householder-rank-one");
  CHECK_THAT(both, contains("\n\nCWY is "));
  for (const char* size : {"(N = 6, L = 4)\n", "(N = 9, L = 4)\n"}) {
    CHECK_THAT(both, contains(std::string("er than sequential Householder, tiled ") + size));
    CHECK_THAT(both, contains(std::string("er than sequential Householder, rank-one updates ") + size));
  }
  CHECK_THAT(bench("rollout", "cwy,householder-rank-one"), contains("rank-one updates (N = 6,"));
  CHECK_THAT(bench("rollout", "cwy,householder"), contains("er than sequential Householder, tiled (N = 6,"));
  CHECK_THAT(bench("rollout", "cwy,free"), !contains("CWY is"));
  const std::string prepare = bench("prepare", "cwy,householder");
  CHECK_THAT(prepare, !contains("CWY is"));
  CHECK_THAT(prepare, !contains("GFLOP/s"));
}

TEST_CASE("bench delta-product times both forms at every number of factors", "[cli][bench]") {
  const TemporaryFolder folder;
  const Json results = bench({"delta-product", "--householder", "1,3", "--length", "20", "--heads", "2",
                              "--key", "5", "--value", "7", "--gated"},
                             folder / "d.json");
  REQUIRE(results.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& result = results[i];
    CHECK(result.at("benchmark") == "delta-product");
    CHECK(result.at("form") == (i % 2 == 0 ? "recurrent" : "chunked"));
    CHECK(result.at("householder") == (i < 2 ? 1 : 3));
    CHECK(result.at("gated") == true);
    CHECK(result.at("gflops").get<double>() > 0);
    CHECK(result.at("gemm_gflops").get<double>() > 0);
    check_cpu_times(result);
  }
  // Both by hand: K V = 35; 40 tokens times heads. 2 n + 1 products forward, 7 n + 2 backward.
  CHECK(results[0].at("gflop").get<double>() == Approx(2e-9 * 40 * 35 * (3 + 9)));
  CHECK(results[0].at("inference") == false);
  const Json forward = bench({"delta-product", "--householder", "1", "--length", "20", "--heads", "2",
                              "--key", "5", "--value", "7", "--inference"},
                             folder / "f.json");
  REQUIRE(forward.size() == 2);
  CHECK(forward[0].at("inference") == true);
  CHECK(forward[0].at("gflop").get<double>() == Approx(2e-9 * 40 * 35 * 3));
}

TEST_CASE("bench rank-one-chain times chains in chunks and factor by factor", "[cli][bench]") {
  const TemporaryFolder folder;
  const std::string precision = GENERATE("fp32", "fp64");
  const Json results = bench({"rank-one-chain", "--batch", "2", "--length", "10", "--heads", "3", "--size",
                              "5", "--columns", "7", "--chunk", "4", "--precision", precision},
                             folder / "c.json");
  REQUIRE(results.size() == 2);
  for (const Json& result : results) {
    CHECK(result.at("benchmark") == "rank-one-chain");
    CHECK(result.at("gflops").get<double>() > 0);
    CHECK(result.at("gemm_gflops").get<double>() > 0);
    check_cpu_times(result, precision.c_str());
  }
  CHECK(results[0].at("form") == "recurrent");
  CHECK_FALSE(results[0].contains("chunk"));
  CHECK(results[1].at("form") == "chunked");
  CHECK(results[1].at("chunk") == 4);
  // By hand, for 60 factors with D M = 35. A delta product has 3 products forward and 9 backward.
  CHECK(results[0].at("gflop").get<double>() == Approx(2e-9 * 60 * 35 * (3 + 9)));
  // A chunk has 6 products of 4 D M, and triangles of 8: 3 times D, 3 times M, and a third of 4.
  CHECK(results[1].at("gflop").get<double>() ==
        Approx(2e-9 * 15 * (6 * 4 * 35 + 8 * (3 * 5 + 3 * 7 + 4 / 3.0))));
}

TEST_CASE("bench convergence fits how the least gradient falls", "[cli][bench]") {
  const TemporaryFolder folder;
  const std::string page = folder / "curves.html", file = folder / "c.json";
  check_success(run({"bench", "convergence", "--hidden", "6", "--reflections", "N,2", "--steps", "2000",
                     "--seeds", "1,2", "--page", page, "--json", file}));
  const Json results = Json::parse(content(file));
  REQUIRE(results.size() == 4);
  for (const Json& result : results) {
    CAPTURE(result.dump());
    const Json& course = result.at("course");
    CHECK(course.front().at(0) == 1);
    CHECK(course.back().at(0) == 2000);
    // A descent along another direction than the gradient does not end where the gradient is small.
    CHECK(course.back().at(1).get<double>() < 1e-3 * course.front().at(1).get<double>());
    CHECK(result.at("slope").get<double>() < -0.25);
  }
  CHECK(results[2].at("reflections") == 2);
  CHECK(results[1].at("seed") == 2);
  CHECK_THAT(content(page), contains("L = 2, seed 1"));
  write_text(folder / "dear.html", "<!doctype html><title>dear</title>");
  check_refused(run({"bench", "convergence", "--steps", "1000", "--page", folder / "dear.html"}), 1,
                {"dear.html", "--overwrite"});
  check_refused(run({"bench", "convergence", "--hidden", "1"}), 2, {"--hidden", "1"});
  check_refused(run({"bench", "convergence", "--steps", "10"}), 2, {"--steps", "10"});
}

TEST_CASE("bench position-scores times scores with and without position encoding", "[cli][bench]") {
  const TemporaryFolder folder;
  const std::string precision = GENERATE("fp32", "fp64");
  const Json results = bench({"position-scores", "--batch", "2", "--length", "8", "--heads", "3", "--size",
                              "5", "--chunk", "4", "--precision", precision},
                             folder / "s.json");
  REQUIRE(results.size() == 2);
  for (const Json& result : results) {
    CHECK(result.at("benchmark") == "position-scores");
    CHECK(result.at("gflops").get<double>() > 0);
    CHECK(result.at("gemm_gflops").get<double>() > 0);
    check_cpu_times(result, precision.c_str());
  }
  CHECK(results[0].at("scores") == "plain");
  CHECK_FALSE(results[0].contains("chunk"));
  CHECK(results[1].at("scores") == "position");
  CHECK(results[1].at("chunk") == 4);
  // By hand, for 6 heads: three products of 8 x 8 with 5.
  CHECK(results[0].at("gflop").get<double>() == Approx(2e-9 * 6 * 3 * 64 * 5));
  // 32 pairs 7 times, and 4 keys that are carried over 4 tokens 3 times, with vectors of 5. Triangles of 8
  // with 4 and with 8 keys, 7 times. Within two chunks triangles of 8, 9 times with vectors and 2 thirds
  // of 4.
  CHECK(results[1].at("gflop").get<double>() ==
        Approx(2e-9 * 6 * (5 * (7 * 32 + 3 * 16) + 7 * 8 * (4 + 8) + 2 * 8 * (9 * 5 + 2 * 4 / 3.0))));
}

TEST_CASE("bench refuses what it cannot time", "[cli][bench]") {
  check_refused(run({"bench", "delta-product", "--householder", "0"}), 2, {"--householder", "0"});
  check_refused(run({"bench", "delta-product", "--chunk", "0"}), 2, {"--chunk", "0"});
  check_refused(run({"bench", "rank-one-chain", "--columns", "0"}), 2, {"--columns", "0"});
  check_refused(run({"bench", "rank-one-chain", "--precision", "tf32"}), 2, {"--precision", "tf32"});
  check_refused(run({"bench", "position-scores", "--size", "0"}), 2, {"--size", "0"});
  check_refused(run({"bench", "position-scores", "--precision", "bf16"}), 2, {"--precision", "bf16"});
  const TemporaryFolder folder;
  check_refused(run({"bench"}), 2, {"subcommand"});
  check_refused(run({"bench", "speed"}), 2, {"speed"});
  check_refused(run({"bench", "rollout", "--cells", "cwy,rnn"}), 2, {"--cells", "rnn"});
  check_refused(run({"bench", "prepare", "--cells", "lstm"}), 2, {"--cells", "lstm"});
  check_refused(run({"bench", "rollout", "--hidden", "0"}), 2, {"--hidden", "0"});
  check_refused(run({"bench", "rollout", "--hidden", "8,x"}), 2, {"--hidden", "x"});
  check_refused(run({"bench", "rollout", "--reflections", "-1"}), 2, {"--reflections", "-1"});
  check_refused(run({"bench", "rollout", "--hidden", "9,8", "--reflections", "9"}), 2,
                {"--reflections 9 is more than --hidden 8"});
  check_refused(run({"bench", "rollout", "--samples", "0"}), 2, {"--samples", "0"});
  check_refused(run({"bench", "rollout", "--samples", "1.5"}), 2,
                {"--samples", "'1.5' was given; expected a whole number from 1 to 100000"});
  check_refused(run({"bench", "rollout", "--length", "0"}), 2, {"--length", "0"});
  check_refused(run({"bench", "prepare", "--length", "3"}), 2, {"--length"});
  check_refused(run({"bench", "rollout", "--device", "cuda"}), 1,
                {"device cuda was asked for", "--device cpu"});
  const std::string nowhere = folder / "none/x.json";
  check_refused(
      run({"bench", "prepare", "--cells", "free", "--hidden", "4", "--samples", "1", "--json", nowhere}), 1,
      {nowhere});
}

TEST_CASE("benchmarks of chains and of scores refuse sizes for which memory is short", "[cli][bench]") {
  // Terabytes, which no machine has.
  for (const char* name : {"position-scores", "rank-one-chain"}) {
    CAPTURE(name);
    const bool scores = name == std::string("position-scores");
    const ProgramResult result = run({"bench", name, "--length", scores ? "1048576" : "1073741824"});
    check_refused(result, 1, {"these sizes take about", "GB of memory are free", "--length"});
    CHECK(result.output == "");
  }
}

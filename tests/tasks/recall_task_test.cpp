#include "orthornn/tasks/recall_task.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("recall shows pairs, then asks for the value of each key once", "[recall]") {
  const Index pairs = GENERATE(1, 5);
  const RecallTask task({.keys = pairs, .symbols = 20, .length = 24, .batch = 50});
  Batch batch;
  task.training_batch(3, batch);
  REQUIRE(batch.integers(batch_names::symbols).shape() == Shape{24, 50});
  REQUIRE(batch.integers(batch_names::classes).shape() == Shape{24, 50});
  std::set<Index> places;
  for (Index b = 0; b < 50; ++b) {
    std::map<std::int32_t, std::int32_t> value_of;
    std::set<std::int32_t> values, asked;
    for (Index t = 0; t < 24; ++t) {
      const std::int32_t symbol = batch.integers(batch_names::symbols)(t, b);
      const std::int32_t target = batch.integers(batch_names::classes)(t, b);
      if (t < 2 * pairs) {
        CHECK(target == -1);
        CHECK((t % 2 == 0 ? symbol >= 1 && symbol < 10 : symbol >= 10 && symbol < 20));
        if (t % 2 == 1) {
          value_of[batch.integers(batch_names::symbols)(t - 1, b)] = symbol;
          values.insert(symbol);
        }
      } else if (symbol == 0) {
        CHECK(target == -1);
      } else {
        REQUIRE(value_of.contains(symbol));
        CHECK(target == value_of[symbol]);
        asked.insert(symbol);
        places.insert(t);
        CHECK(t % 2 == 0);
      }
    }
    CHECK(std::ssize(value_of) == pairs);
    CHECK(std::ssize(values) == pairs);
    CHECK(std::ssize(asked) == pairs);
  }
  // Near places are more likely than far ones, and far ones come, too.
  CHECK(places.contains(2 * pairs));
  CHECK(*places.rbegin() > 12 + pairs);
}

TEST_CASE("recall comes back from its config and refuses what cannot be", "[recall]") {
  const RecallTask task({.batch = 3, .seed = 5});
  CHECK(task.baseline_loss() == Approx(std::log(64.0)));
  const auto rebuilt = make_task(task.config(), {.batch = 3, .seed = 5});
  CHECK(rebuilt->config() == task.config());
  const auto symbols = [](const Task& of, std::uint64_t step) {
    Batch batch;
    of.training_batch(step, batch);
    return std::vector<std::int32_t>(batch.integers(batch_names::symbols).begin(),
                                     batch.integers(batch_names::symbols).end());
  };
  CHECK(symbols(*rebuilt, 2) == symbols(task, 2));
  CHECK(symbols(task, 3) != symbols(task, 2));
  CHECK(task.with_length(128, 2)->length() == 128);

  const auto refusal = [](const RecallOptions& options) {
    return error_message<ValueError>([&] { RecallTask of(options); });
  };
  CHECK_THAT(refusal({.keys = 0}), contains("keys is 0"));
  CHECK_THAT(refusal({.keys = 64}), contains("symbols is 128") && contains("at least 130"));
  CHECK_THAT(refusal({.symbols = 31}), contains("even number"));
  CHECK_THAT(refusal({.length = 30}), contains("length is 30") && contains("at least 32"));
  CHECK_THAT(refusal({.length = 33}), contains("even number"));
  CHECK_THAT(refusal({.length = Index{1} << 40}), contains("at most"));
}

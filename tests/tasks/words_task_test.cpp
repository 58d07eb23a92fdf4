#include "orthornn/tasks/words_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <numeric>
#include <set>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/score.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

using Permutation = std::vector<std::int32_t>;

Permutation compose(const Permutation& a, const Permutation& b) {
  Permutation result;
  for (const std::int32_t image : b) result.push_back(a[static_cast<std::size_t>(image)]);
  return result;
}

bool is_even(const Permutation& p) {
  int inversions = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (std::size_t j = i + 1; j < p.size(); ++j) inversions += p[i] > p[j];
  }
  return inversions % 2 == 0;
}

std::string refusal(const WordsOptions& options) {
  return error_message<ValueError>([&] { WordsTask task(options); });
}

using SymbolWords = std::vector<std::vector<std::int32_t>>;

/// Column b of the symbols.
SymbolWords words_in(const Batch& batch) {
  const ConstTensorView<std::int32_t> symbols = batch.integers(batch_names::symbols);
  SymbolWords words(static_cast<std::size_t>(symbols.shape()[1]));
  for (Index t = 0; t < symbols.shape()[0]; ++t) {
    for (Index b = 0; b < symbols.shape()[1]; ++b)
      words[static_cast<std::size_t>(b)].push_back(symbols(t, b));
  }
  return words;
}

SymbolWords words_of(const Task& task, std::uint64_t step) {
  Batch batch;
  task.training_batch(step, batch);
  return words_in(batch);
}

}  // namespace

TEST_CASE("products of a group are those of its permutations, all different", "[words]") {
  const auto [name, order, degree] = GENERATE(table<std::string, Index, Index>({{"S2", 2, 2},
                                                                                {"S3", 6, 3},
                                                                                {"S5", 120, 5},
                                                                                {"A3", 3, 3},
                                                                                {"A5", 60, 5},
                                                                                {"Z2", 2, 2},
                                                                                {"Z60", 60, 60},
                                                                                {"D3", 6, 3},
                                                                                {"D4", 8, 4},
                                                                                {"Z2xS3", 12, 5},
                                                                                {"D4xZ3xA4", 288, 11}}));
  const FiniteGroup group(name);
  CAPTURE(name);
  REQUIRE(group.order() == order);
  REQUIRE(group.degree() == degree);
  std::set<Permutation> all;
  for (Index a = 0; a < order; ++a) all.insert(group.permutation(a));
  CHECK(std::ssize(all) == order);
  Permutation identity(static_cast<std::size_t>(degree));
  std::iota(identity.begin(), identity.end(), 0);
  CHECK(group.permutation(FiniteGroup::identity) == identity);
  bool same = true;
  for (Index a = 0; a < order; ++a) {
    for (Index b = a % 7; b < order; b += 7)
      same &= group.permutation(group.product(a, b)) == compose(group.permutation(a), group.permutation(b));
  }
  CHECK(same);
  const bool alternating = name[0] == 'A';
  if (alternating) CHECK(std::ranges::all_of(all, is_even));
}

TEST_CASE("groups that do not exist are refused in a sentence", "[words]") {
  const auto message = [](const std::string& name) {
    return error_message<ValueError>([&] { FiniteGroup group(name); });
  };
  CHECK(message("S0") == "there is no group 'S0'; expected S2 to S7");
  CHECK_THAT(message("S99"), contains("S2 to S7"));
  CHECK_THAT(message("A2"), contains("A3 to A7"));
  CHECK_THAT(message("D2"), contains("D3 to D2520"));
  CHECK_THAT(message("Z1"), contains("Z2 to Z5040"));
  for (const char* name :
       {"", "Q8", "Zx", "S", "s3", "S3x", "xS3", "S-3", "S3 ", "S3.5", "S99999999999999999999"})
    CHECK_THAT(message(name), contains(fmt::format("'{}'", name)) && contains("S, A, Z or D and a number"));
  CHECK_THAT(message("S7xZ2"), contains("S7xZ2") && contains("5040"));
  CHECK(FiniteGroup("S7").order() == 5040);
  CHECK_THAT(error_message<ValueError>([] { FiniteGroup("A5").swaps(); }), contains("A5"));
}

TEST_CASE("a word's targets are the products of its elements so far", "[words]") {
  const auto alphabet = GENERATE(Alphabet::all, Alphabet::swaps, Alphabet::random);
  const WordsTask task(
      {.group = "S4", .alphabet = alphabet, .generators = 3, .length = 9, .batch = 5, .seed = 3});
  CHECK(task.data().every_step);
  CHECK(task.data().classes == 24);
  CHECK(task.data().symbols == (alphabet == Alphabet::all ? 24 : alphabet == Alphabet::swaps ? 6 : 3));
  Batch batch;
  task.training_batch(7, batch);
  REQUIRE(batch.integers(batch_names::symbols).shape() == Shape{9, 5});
  REQUIRE(batch.integers(batch_names::classes).shape() == Shape{9, 5});
  for (Index b = 0; b < 5; ++b) {
    Permutation y = {0, 1, 2, 3};
    for (Index t = 0; t < 9; ++t) {
      const auto symbol = static_cast<std::size_t>(batch.integers(batch_names::symbols)(t, b));
      y = compose(task.group().permutation(task.alphabet()[symbol]), y);
      CHECK(task.group().permutation(batch.integers(batch_names::classes)(t, b)) == y);
    }
  }
}

TEST_CASE("swaps are all swaps, and random generators generate", "[words]") {
  const WordsTask swaps({.group = "S5", .alphabet = Alphabet::swaps});
  REQUIRE(swaps.alphabet().size() == 10);
  for (const Index swap : swaps.alphabet()) {
    const Permutation p = swaps.group().permutation(swap);
    int moved = 0;
    for (std::int32_t i = 0; i < 5; ++i) moved += p[static_cast<std::size_t>(i)] != i;
    CHECK(moved == 2);
  }
  std::set<std::vector<Index>> drawn;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const WordsTask task({.group = "A5", .alphabet = Alphabet::random, .generators = 2, .seed = seed});
    CHECK(task.group().is_generated_by(task.alphabet()));
    drawn.insert({task.alphabet().begin(), task.alphabet().end()});
  }
  CHECK(drawn.size() == 4);
  CHECK_FALSE(FiniteGroup("S3").is_generated_by(std::vector<Index>{0}));
  CHECK_THAT(refusal({.group = "Z2xZ2xZ2", .alphabet = Alphabet::random, .generators = 2}),
             contains("2 of 8 random elements") && contains("--generators"));
  CHECK_THAT(refusal({.group = "S3", .alphabet = Alphabet::random, .generators = 7}),
             contains("7 generators of S3, which has 6 elements"));
}

TEST_CASE("symbols of words are evenly spread", "[words]") {
  const WordsTask task({.group = "S3", .length = 50, .batch = 240});
  std::map<std::int32_t, int> found;
  for (const auto& word : words_of(task, 1)) {
    for (const std::int32_t symbol : word) ++found[symbol];
  }
  // 12000 draws: a count strays from 2000 by sqrt(12000 / 6 * 5 / 6) = 41; five of those.
  REQUIRE(found.size() == 6);
  for (const auto& [symbol, times] : found) CHECK(std::abs(times - 2000) < 205);
}

TEST_CASE("words depend on seed and number alone, and held-out sets have their own", "[words]") {
  const WordsTask task({.length = 24, .batch = 4, .seed = 7});
  const SymbolWords fifth = words_of(task, 5);
  CHECK(words_of(task, 6) != fifth);
  CHECK(words_of(task, 5) == fifth);
  CHECK(words_of(WordsTask({.length = 24, .batch = 4, .seed = 7}), 5) == fifth);
  CHECK(words_of(WordsTask({.length = 24, .batch = 4, .seed = 8}), 5) != fifth);
  // A batch of another size and of shorter words begins with the same sequences.
  const SymbolWords pair = words_of(WordsTask({.length = 9, .batch = 2, .seed = 7}), 10);
  for (std::size_t b = 0; b < 2; ++b) CHECK(std::equal(pair[b].begin(), pair[b].end(), fifth[b].begin()));

  const auto held_out = [](const Task& of, HeldOut set) {
    SymbolWords all;
    Batch batch;
    for (Index number = 0; number < of.evaluation_batches(set); ++number) {
      of.evaluation_batch(set, number, batch);
      std::ranges::copy(words_in(batch), std::back_inserter(all));
    }
    return all;
  };
  const SymbolWords validation = held_out(task, HeldOut::validation), test = held_out(task, HeldOut::test);
  CHECK(validation.size() == 1000);
  CHECK(test.size() == 1000);
  CHECK(held_out(WordsTask({.length = 24, .batch = 384, .seed = 7}), HeldOut::test) == test);
  std::set<std::vector<std::int32_t>> all(validation.begin(), validation.end());
  all.insert(test.begin(), test.end());
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (const auto& word : words_of(task, step)) all.insert(word);
  }
  CHECK(all.size() == 2080);
}

TEST_CASE("an epoch of a fixed set of words has each once, in an order of its own", "[words]") {
  const WordsTask task({.length = 24, .training_samples = 12, .batch = 4, .seed = 7});
  REQUIRE(task.batches_per_epoch() == 3);
  const SymbolWords fresh = words_of(WordsTask({.length = 24, .batch = 12, .seed = 7}), 0);
  std::set<SymbolWords> orders;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    SymbolWords all;
    for (std::uint64_t step = 3 * epoch; step < 3 * epoch + 3; ++step)
      std::ranges::copy(words_of(task, step), std::back_inserter(all));
    orders.insert(all);
    CHECK(std::ranges::is_permutation(all, fresh));
  }
  CHECK(orders.size() == 4);
  // 13 samples leave one out of each epoch.
  CHECK(WordsTask({.training_samples = 13, .batch = 4}).batches_per_epoch() == 3);
  CHECK_FALSE(WordsTask({.batch = 4}).batches_per_epoch().has_value());
}

TEST_CASE("a curriculum begins with words of two symbols and doubles them", "[words]") {
  const WordsTask task({.length = 20, .curriculum = 2, .batch = 3});
  std::vector<std::size_t> lengths;
  for (std::uint64_t step = 0; step < 10; ++step) lengths.push_back(words_of(task, step)[0].size());
  CHECK(lengths == std::vector<std::size_t>{2, 2, 4, 4, 8, 8, 16, 16, 20, 20});
  CHECK(words_of(task, std::uint64_t{1} << 60)[0].size() == 20);
  CHECK(words_of(WordsTask({.length = 1, .curriculum = 1, .batch = 3}), 0)[0].size() == 1);
  Batch batch;
  task.evaluation_batch(HeldOut::validation, 0, batch);
  CHECK(words_in(batch)[0].size() == 20);
}

TEST_CASE("the baseline of words is the entropy of the targets", "[words]") {
  CHECK(WordsTask({.group = "S5"}).baseline_loss() == Approx(std::log(120.0)));
  // One swap of three at first, then an even or an odd permutation of three.
  CHECK(WordsTask({.group = "S3", .alphabet = Alphabet::swaps, .length = 3}).baseline_loss() ==
        Approx(std::log(3.0)));
  // Of six swaps of S4; then the identity with 1/6, two pairs of swaps 3 (1/18), cycles of three 8 (1/12).
  const double second = std::log(6.0) / 6 + std::log(18.0) / 6 + 2 * std::log(12.0) / 3;
  CHECK(WordsTask({.group = "S4", .alphabet = Alphabet::swaps, .length = 2}).baseline_loss() ==
        Approx((std::log(6.0) + second) / 2));
  // One generator leaves nothing open; of many steps the most are even or odd ones of S4.
  CHECK(WordsTask({.group = "Z7", .alphabet = Alphabet::random, .generators = 1}).baseline_loss() ==
        Approx(0).margin(1e-12));
  CHECK(WordsTask({.group = "S4", .alphabet = Alphabet::swaps, .length = 100'000}).baseline_loss() ==
        Approx(std::log(12.0)).epsilon(1e-4));
  // Which mixes slowly, and ends all the same.
  CHECK(WordsTask({.group = "Z5040", .alphabet = Alphabet::random, .length = 1 << 30, .batch = 1})
            .baseline_loss() < std::log(5040.0));
}

TEST_CASE("words count right steps and right sequences", "[words]") {
  const WordsTask task({.length = 4, .batch = 3});
  Batch batch;
  task.training_batch(0, batch);
  Tensor<float> outputs(Shape{4, 3, 6});
  for (Index t = 0; t < 4; ++t) {
    for (Index b = 0; b < 3; ++b) outputs(t, b, batch.integers(batch_names::classes)(t, b)) = 1;
  }
  const auto sequences = [&] {
    const Score score = score_of(task, outputs, batch, 1);
    return std::pair(score.right, score.counted);
  };
  CHECK(score_of(task, outputs, batch).right == 12);
  CHECK(score_of(task, outputs, batch).counted == 12);
  CHECK(sequences() == std::pair(3.0, 3.0));
  outputs(3, 1, batch.integers(batch_names::classes)(3, 1)) = 0;
  CHECK(score_of(task, outputs, batch).right == 11);
  CHECK(sequences() == std::pair(2.0, 3.0));
  CHECK_THROWS_AS(score_of(task, Tensor<float>(Shape{4, 3, 5}), batch), ShapeError);
  CHECK(
      task.solved({.loss = 1, .metrics = {{Metric::accuracy(), 1.0}, {Metric::sequence_accuracy(), 0.99}}}));
  CHECK_FALSE(
      task.solved({.loss = 0, .metrics = {{Metric::accuracy(), 1.0}, {Metric::sequence_accuracy(), 0.98}}}));
}

TEST_CASE("a task of words comes back from its config, also with another length", "[words]") {
  const WordsTask task({.group = "A4", .alphabet = Alphabet::random, .length = 17, .batch = 4, .seed = 3});
  const auto rebuilt = make_task(task.config(), {.batch = 4, .seed = 3});
  CHECK(rebuilt->config() == task.config());
  CHECK(words_of(*rebuilt, 2) == words_of(task, 2));
  const auto longer = task.with_length(30, 2);
  CHECK(longer->length() == 30);
  CHECK(longer->batch_size() == 2);
  const SymbolWords longer_words = words_of(*longer, 4);
  CHECK(std::equal(longer_words[0].begin(), longer_words[0].begin() + 17, words_of(task, 2)[0].begin()));
}

TEST_CASE("options of words that cannot be are refused in a sentence", "[words]") {
  CHECK_THAT(refusal({.length = 0}), contains("length is 0") && contains("at least 1"));
  CHECK_THAT(refusal({.batch = 0}), contains("the batch is 0"));
  CHECK_THAT(refusal({.length = Index{1} << 40}), contains("128 sequences of") && contains("at most"));
  CHECK_THAT(refusal({.group = "Q8"}), contains("'Q8'"));
  CHECK_THAT(refusal({.group = "A5", .alphabet = Alphabet::swaps}), contains("S<n>") && contains("A5"));
  CHECK_THAT(refusal({.group = "S7"}),
             contains("5040 symbols") && contains("random with at most 832 generators"));
  CHECK_NOTHROW(WordsTask({.group = "S7", .alphabet = Alphabet::swaps}));
  CHECK_THAT(refusal({.training_samples = 5, .batch = 6}), contains("5 training samples"));
  CHECK_THAT(error_message<ValueError>([] { make_task(R"({"task": "words", "group": 3})", {}); }),
             contains("'group' is 3; expected text"));
}

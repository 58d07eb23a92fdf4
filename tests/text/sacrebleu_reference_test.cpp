// Tokens, BLEU and chrF against those that sacreBLEU gave for data/sacrebleu_scores.json, which says how it
// was made.

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orthornn/text/bleu.hpp"
#include "orthornn/text/chrf.hpp"
#include "orthornn/text/tokenize_13a.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

// Half of the last recorded digit, and a few roundings of numbers up to 100 in other orders of the sums.
constexpr double recorded_rounding = 1e-10;

nlohmann::json recorded() {
  std::ifstream file(ORTHORNN_SOURCE_DIR "/tests/text/data/sacrebleu_scores.json");
  return nlohmann::json::parse(file);
}

struct Corpus {
  std::vector<std::string> hypotheses;
  std::vector<std::vector<std::string>> references{2};
};

Corpus corpus_of(const nlohmann::json& record) {
  Corpus corpus;
  for (const nlohmann::json& sentence : record.at("sentences")) {
    corpus.hypotheses.push_back(sentence.at("hypothesis"));
    for (std::size_t r = 0; r < 2; ++r) {
      corpus.references[r].push_back(sentence.at("references").at(r));
    }
  }
  return corpus;
}

void check_scores(const nlohmann::json& expected, const BleuScore& bleu_score, const ChrfScore& chrf_score) {
  const nlohmann::json& of_bleu = expected.at("bleu");
  CHECK(std::abs(bleu_score.score - of_bleu.at("score").get<double>()) < recorded_rounding);
  for (std::size_t n = 0; n < bleu_orders; ++n) {
    CHECK(std::abs(bleu_score.precisions[n] - of_bleu.at("precisions").at(n).get<double>()) <
          recorded_rounding);
  }
  CHECK(std::abs(bleu_score.brevity_penalty - of_bleu.at("brevity_penalty").get<double>()) <
        recorded_rounding);
  CHECK(bleu_score.hypothesis_length == of_bleu.at("hypothesis_length").get<Index>());
  CHECK(bleu_score.reference_length == of_bleu.at("reference_length").get<Index>());
  CHECK(score_text(bleu_score) == of_bleu.at("text").get<std::string>());
  CHECK(std::abs(chrf_score.score - expected.at("chrf").at("score").get<double>()) < recorded_rounding);
  CHECK(score_text(chrf_score) == expected.at("chrf").at("text").get<std::string>());
}

}  // namespace

TEST_CASE("tokens are those of sacreBLEU", "[text][reference]") {
  const nlohmann::json record = recorded();
  int lines = 0;
  for (const nlohmann::json& sentence : record.at("sentences")) {
    CHECK(tokenize_13a(sentence.at("hypothesis").get<std::string>()) ==
          sentence.at("hypothesis_tokens").get<std::string>());
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(tokenize_13a(sentence.at("references").at(r).get<std::string>()) ==
            sentence.at("reference_tokens").at(r).get<std::string>());
    }
    lines += 3;
  }
  CHECK(lines == 186);
}

TEST_CASE("BLEU and chrF of a corpus are those of sacreBLEU", "[text][reference]") {
  const nlohmann::json record = recorded();
  const auto [hypotheses, references] = corpus_of(record);
  const std::span first(references.data(), 1);
  check_scores(record.at("corpus").at("one_reference"), bleu(bleu_statistics(hypotheses, first)),
               chrf(chrf_statistics(hypotheses, first)));
  check_scores(record.at("corpus").at("two_references"), bleu(bleu_statistics(hypotheses, references)),
               chrf(chrf_statistics(hypotheses, references)));
}

TEST_CASE("BLEU and chrF of each sentence alone are those of sacreBLEU", "[text][reference]") {
  const nlohmann::json record = recorded();
  CHECK(record.at("sentences").size() == 62);
  for (const nlohmann::json& sentence : record.at("sentences")) {
    const std::string hypothesis = sentence.at("hypothesis");
    const std::vector<std::string> references = sentence.at("references");
    INFO("hypothesis: " << hypothesis);
    const std::span first(references.data(), 1);
    check_scores(sentence.at("one_reference"), bleu(bleu_statistics(hypothesis, first)),
                 chrf(chrf_statistics(hypothesis, first)));
    check_scores(sentence.at("two_references"), bleu(bleu_statistics(hypothesis, references)),
                 chrf(chrf_statistics(hypothesis, references)));
  }
}

TEST_CASE("statistics of shares of a corpus add up to those of the corpus", "[text]") {
  const Corpus corpus = corpus_of(recorded());
  const auto check = [&](const auto& statistics_of) {
    const auto whole = statistics_of(corpus.hypotheses, corpus.references);
    decltype(statistics_of(corpus.hypotheses, corpus.references)) sum;
    // The second share is empty.
    const std::vector<std::size_t> ends{0, 7, 7, 40, corpus.hypotheses.size()};
    for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
      const auto share = [&](const std::vector<std::string>& lines) {
        return std::vector(lines.begin() + static_cast<std::ptrdiff_t>(ends[s]),
                           lines.begin() + static_cast<std::ptrdiff_t>(ends[s + 1]));
      };
      sum += statistics_of(
          share(corpus.hypotheses),
          std::vector<std::vector<std::string>>{share(corpus.references[0]), share(corpus.references[1])});
    }
    CHECK(sum == whole);
    CHECK(whole.size == CorpusSize{.sentences = 62, .references = 2});
  };
  using Lines = std::vector<std::string>;
  check([](const Lines& h, const std::vector<Lines>& r) { return bleu_statistics(h, r); });
  check([](const Lines& h, const std::vector<Lines>& r) { return chrf_statistics(h, r); });
}

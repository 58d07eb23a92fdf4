#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orthornn/text/tokenizer_options.hpp"

namespace orthornn {

/// What encoding and decoding need of a SentencePiece model: the pieces after the four of `token_ids`, with
/// their scores (log probabilities of a unigram model; minus the rank of a merge of byte pair encoding).
struct PieceList {
  struct Piece {
    std::string text;
    float score = 0;
  };
  PieceModel model = PieceModel::unigram;
  std::vector<Piece> pieces;
};

/// Reads the pieces of a SentencePiece model, the protocol buffer ModelProto of sentencepiece_model.proto.
/// Throws ValueError as the constructor of SubwordTokenizer says, but for what its options forbid.
PieceList read_pieces(std::string_view model);

/// A SentencePiece model of these pieces, which maps no characters to others, and nothing else. SentencePiece
/// checks little of a model that it loads, so it is given no other.
std::string model_of(const PieceList& list);

}  // namespace orthornn

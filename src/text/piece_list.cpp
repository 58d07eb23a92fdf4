#include "text/piece_list.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <unordered_set>

#include "orthornn/core/error.hpp"
#include "text/token_texts.hpp"

// Protocol buffers (protobuf.dev/programming-guides/encoding): a message is a row of fields, a field a number
// and a value. Of the values there are here three kinds: a variable-length integer, 32 bits, and a text of
// known length, which may be a message again.
namespace orthornn {
namespace {

enum class Wire : unsigned { integer = 0, bits64 = 1, text = 2, bits32 = 5 };

// Numbers of the fields and values in sentencepiece_model.proto.
namespace model_field {
constexpr std::uint64_t piece = 1, trainer = 2;
}
namespace piece_field {
constexpr std::uint64_t text = 1, score = 2, type = 3;
}
namespace trainer_field {
constexpr std::uint64_t model_type = 3, unknown_surface = 44;
}
enum Type : std::uint64_t { normal = 1, unknown = 2, control = 3 };

constexpr Type type_of_special(std::size_t token) { return token == token_ids::unknown ? unknown : control; }

constexpr float largest_score = 1e7F;

struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::integer;
  std::uint64_t integer = 0;  // also the 32 bits
  std::string_view text;
};

/// The fields of a message one after another.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  std::optional<Field> next() {
    if (bytes_.empty()) return std::nullopt;
    const std::uint64_t key = integer();
    Field field{.number = key >> 3, .wire = static_cast<Wire>(key & 7), .text = {}};
    switch (field.wire) {
      case Wire::integer:
        field.integer = integer();
        return field;
      case Wire::bits32:
        field.integer = bits(4);
        return field;
      case Wire::bits64:
        field.integer = bits(8);
        return field;
      case Wire::text:
        field.text = take(integer());
        return field;
    }
    refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    throw ValueError("this is no SentencePiece model: a field is damaged or truncated");
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) refuse();
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::uint64_t integer() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }
  std::uint64_t bits(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view taken = take(count);
    for (std::size_t i = 0; i < count; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << 8 * i;
    return value;
  }

  std::string_view bytes_;
};

void check_wire(const Field& field, Wire expected) {
  if (field.wire != expected)
    throw ValueError(
        fmt::format("this is no SentencePiece model: its field {} is of another kind", field.number));
}

struct TypedPiece {
  PieceList::Piece piece;
  std::uint64_t type = normal;
};

TypedPiece read_piece(std::string_view bytes) {
  TypedPiece read;
  Message message(bytes);
  while (const std::optional<Field> field = message.next()) {
    switch (field->number) {
      case piece_field::text:
        check_wire(*field, Wire::text);
        read.piece.text = field->text;
        break;
      case piece_field::score:
        check_wire(*field, Wire::bits32);
        read.piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->integer));
        break;
      case piece_field::type:
        check_wire(*field, Wire::integer);
        read.type = field->integer;
        break;
      default:
        break;
    }
  }
  return read;
}

void check_special_piece(const TypedPiece& found, std::size_t token) {
  if (found.piece.text != special_texts[token] || found.type != type_of_special(token)) {
    throw ValueError(
        fmt::format("piece {} of the SentencePiece model is not {}", token, special_texts[token]));
  }
}

void check_piece(const TypedPiece& found, std::size_t token) {
  if (found.type != normal)
    throw ValueError(fmt::format("token {} is of kind {}; expected {}, a normal piece", token, found.type,
                                 static_cast<int>(normal)));
  check_token_text(found.piece.text, token);
  if (!(std::abs(found.piece.score) <= largest_score))
    throw ValueError(fmt::format("token {} has the score {}; expected a number between -1e7 and 1e7", token,
                                 found.piece.score));
}

PieceModel read_trainer(std::string_view bytes) {
  std::uint64_t type = 1;
  Message message(bytes);
  while (const std::optional<Field> field = message.next()) {
    if (field->number != trainer_field::model_type) continue;
    check_wire(*field, Wire::integer);
    type = field->integer;
  }
  if (type == 1) return PieceModel::unigram;
  if (type == 2) return PieceModel::bpe;
  throw ValueError(
      fmt::format("the SentencePiece model is of kind {}; expected 1 (unigram) or 2 (bpe)", type));
}

/// Writes the fields of a message.
class MessageWriter {
 public:
  void integer(std::uint64_t number, std::uint64_t value) {
    key(number, Wire::integer);
    append(value);
  }
  void real(std::uint64_t number, float value) {
    key(number, Wire::bits32);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<char>(bits >> shift & 0xFFU));
  }
  void text(std::uint64_t number, std::string_view value) {
    key(number, Wire::text);
    append(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint64_t number, Wire wire) { append(number << 3 | static_cast<unsigned>(wire)); }
  void append(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7F) | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

std::string piece_message(std::string_view text, float score, Type type) {
  MessageWriter piece;
  piece.text(piece_field::text, text);
  piece.real(piece_field::score, score);
  piece.integer(piece_field::type, type);
  return piece.bytes();
}

}  // namespace

PieceList read_pieces(std::string_view model) {
  PieceList list;
  std::unordered_set<std::string> texts;
  std::size_t token = 0;
  Message message(model);
  while (const std::optional<Field> field = message.next()) {
    if (field->number == model_field::trainer) {
      check_wire(*field, Wire::text);
      list.model = read_trainer(field->text);
    }
    if (field->number != model_field::piece) continue;
    check_wire(*field, Wire::text);
    TypedPiece read = read_piece(field->text);
    const bool is_special = token < special_texts.size();
    is_special ? check_special_piece(read, token) : check_piece(read, token);
    if (!texts.insert(read.piece.text).second) refuse_repeated_token(read.piece.text, token);
    if (!is_special) list.pieces.push_back(std::move(read.piece));
    ++token;
  }
  if (list.pieces.empty()) {
    throw ValueError(fmt::format("the SentencePiece model has {} pieces; expected {} at least", token,
                                 special_texts.size() + 1));
  }
  return list;
}

std::string model_of(const PieceList& list) {
  MessageWriter trainer;
  trainer.integer(trainer_field::model_type, list.model == PieceModel::unigram ? 1 : 2);
  trainer.text(trainer_field::unknown_surface, " <unk> ");

  MessageWriter model;
  for (std::size_t token = 0; token < special_texts.size(); ++token)
    model.text(model_field::piece, piece_message(special_texts[token], 0, type_of_special(token)));
  for (const PieceList::Piece& piece : list.pieces)
    model.text(model_field::piece, piece_message(piece.text, piece.score, normal));
  model.text(model_field::trainer, trainer.bytes());
  return model.bytes();
}

}  // namespace orthornn

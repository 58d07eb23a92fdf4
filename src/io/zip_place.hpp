#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace orthornn {

/// Byte of a zip archive at which the data of a member begin, which libzip does not tell: the member of this
/// number in the archive's directory, which must have this name and be stored as it is, without compression
/// and encryption. No value for other members and for archives that do not say it. Looks at a few bytes.
std::optional<std::uint64_t> place_in_zip(std::istream& archive, std::uint64_t number,
                                          const std::string& name);

}  // namespace orthornn

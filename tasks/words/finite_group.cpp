#include "orthornn/tasks/finite_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "core/parsed_number.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// The largest n with at most `most_elements` permutations.
constexpr Index largest_symmetric = 7;

Index factorial(Index n) { return n < 2 ? 1 : n * factorial(n - 1); }

/// "S3", "A5" and the like as a letter and a number; n is -1 for other texts.
Index size_in(const std::string& text) {
  if (text.size() < 2 || text[1] == '-') return -1;
  return parsed_number<Index>(std::string_view(text).substr(1)).value_or(-1);
}

}  // namespace

FiniteGroup::Factor FiniteGroup::parse_factor(const std::string& text, const std::string& name) {
  const auto expected = [&](const std::string& what) {
    return ValueError(fmt::format("there is no group '{}'; expected {}", name.substr(0, 40), what));
  };
  const Index n = size_in(text);
  if (n < 0 || std::string("SAZD").find(text[0]) == std::string::npos)
    throw expected("S, A, Z or D and a number, as in S5, or several with x between, as in Z2xS3");
  Factor factor{.family = text[0], .n = n, .order = 0};
  const bool all = factor.family == 'S';
  if (all || factor.family == 'A') {
    const Index lowest = all ? 2 : 3;
    if (n < lowest || n > largest_symmetric)
      throw expected(fmt::format("{0}{1} to {0}{2}", text[0], lowest, largest_symmetric));
    factor.order = factorial(n) / (all ? 1 : 2);
    for (Index number = 0; number < factorial(n); ++number) {
      std::vector<std::uint8_t> left, permutation;
      for (Index i = 0; i < n; ++i) left.push_back(static_cast<std::uint8_t>(i));
      Index rest = number, inversions = 0;
      for (Index i = n - 1; i >= 0; --i) {
        const Index smaller = rest / factorial(i);  // of the points that are left
        rest %= factorial(i);
        inversions += smaller;
        permutation.push_back(left[static_cast<std::size_t>(smaller)]);
        left.erase(left.begin() + smaller);
      }
      if (all || inversions % 2 == 0)
        factor.permutations.insert(factor.permutations.end(), permutation.begin(), permutation.end());
    }
    return factor;
  }
  const Index lowest = factor.family == 'Z' ? 2 : 3;
  const Index highest = most_elements / (factor.family == 'Z' ? 1 : 2);
  if (n < lowest || n > highest) throw expected(fmt::format("{0}{1} to {0}{2}", text[0], lowest, highest));
  factor.order = factor.family == 'Z' ? n : 2 * n;
  return factor;
}

FiniteGroup::FiniteGroup(const std::string& name) : name_(name) {
  for (std::size_t first = 0; first <= name.size();) {
    const std::size_t end = std::min(name.find('x', first), name.size());
    factors_.push_back(parse_factor(name.substr(first, end - first), name));
    order_ *= factors_.back().order;
    degree_ += factors_.back().n;
    if (order_ > most_elements) {
      throw ValueError(
          fmt::format("the group {} has more than {} elements; expected a smaller one", name, most_elements));
    }
    first = end + 1;
  }
}

/// The number of permutations that come earlier: those with a smaller point at the first difference. Of
/// neighbours in this order, 2i and 2i + 1, which differ by a swap of their last points, one is even.
Index FiniteGroup::Factor::number_of(const std::uint8_t* permutation) const {
  unsigned left = (1U << n) - 1;
  Index number = 0;
  for (Index i = 0; i < n; ++i) {
    const unsigned point = 1U << permutation[i];
    number = number * (n - i) + std::popcount(left & (point - 1));
    left &= ~point;
  }
  return family == 'S' ? number : number / 2;
}

Index FiniteGroup::Factor::product(Index a, Index b) const {
  if (family == 'Z') return (a + b) % n;
  if (family == 'D') {
    // i -> r_a +- (r_b +- i)
    const Index sum = a < n ? a + b % n : a + n - b % n;
    return sum % n + ((a < n) == (b < n) ? 0 : n);
  }
  std::array<std::uint8_t, largest_symmetric> result{};
  for (Index i = 0; i < n; ++i) {
    const std::uint8_t middle = permutations[static_cast<std::size_t>(b * n + i)];
    result[static_cast<std::size_t>(i)] = permutations[static_cast<std::size_t>(a * n + middle)];
  }
  return number_of(result.data());
}

Index FiniteGroup::Factor::image(Index element, Index point) const {
  if (!permutations.empty()) return permutations[static_cast<std::size_t>(element * n + point)];
  return (element < n ? element + point : element + n - point) % n;
}

Index FiniteGroup::product(Index a, Index b) const {
  Index result = 0, place = 1;
  for (auto factor = factors_.rbegin(); factor != factors_.rend(); ++factor) {
    result += place * factor->product(a % factor->order, b % factor->order);
    place *= factor->order;
    a /= factor->order;
    b /= factor->order;
  }
  return result;
}

std::vector<std::int32_t> FiniteGroup::permutation(Index element) const {
  std::vector<std::int32_t> images(static_cast<std::size_t>(degree_));
  Index first = degree_;
  for (auto factor = factors_.rbegin(); factor != factors_.rend(); ++factor) {
    first -= factor->n;
    for (Index point = 0; point < factor->n; ++point) {
      images[static_cast<std::size_t>(first + point)] =
          static_cast<std::int32_t>(first + factor->image(element % factor->order, point));
    }
    element /= factor->order;
  }
  return images;
}

std::vector<std::string> FiniteGroup::parts() const {
  std::vector<std::string> names;
  for (const Factor& factor : factors_) names.push_back(fmt::format("{}{}", factor.family, factor.n));
  return names;
}

std::vector<Index> FiniteGroup::components(Index element) const {
  std::vector<Index> numbers;
  for (auto factor = factors_.rbegin(); factor != factors_.rend(); ++factor) {
    numbers.insert(numbers.begin(), element % factor->order);
    element /= factor->order;
  }
  return numbers;
}

std::vector<Index> FiniteGroup::swaps() const {
  if (factors_.size() > 1 || factors_[0].family != 'S')
    throw ValueError(fmt::format("swaps make a group S<n>, and the group is {}", name_));
  const Factor& all = factors_[0];
  std::vector<Index> swaps;
  std::array<std::uint8_t, largest_symmetric> permutation{};
  std::iota(permutation.begin(), permutation.end(), std::uint8_t{0});
  for (Index i = 0; i < all.n; ++i) {
    for (Index j = i + 1; j < all.n; ++j) {
      auto &first = permutation[static_cast<std::size_t>(i)],
           &second = permutation[static_cast<std::size_t>(j)];
      std::swap(first, second);
      swaps.push_back(all.number_of(permutation.data()));
      std::swap(first, second);
    }
  }
  return swaps;
}

bool FiniteGroup::is_generated_by(std::span<const Index> elements) const {
  // In a finite group inverses are products, too.
  std::vector<bool> found(static_cast<std::size_t>(order_));
  std::vector<Index> reached = {0};
  found[0] = true;
  for (std::size_t next = 0; next < reached.size(); ++next) {
    for (const Index element : elements) {
      const Index product = this->product(element, reached[next]);
      if (found[static_cast<std::size_t>(product)]) continue;
      found[static_cast<std::size_t>(product)] = true;
      reached.push_back(product);
    }
  }
  return std::ssize(reached) == order_;
}

}  // namespace orthornn

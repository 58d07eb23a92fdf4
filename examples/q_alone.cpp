// Q alone: reflection vectors become an orthogonal matrix, and a gradient with respect to Q becomes one with
// respect to them. Gradient descent leads Q to a given rotation A. Q is orthogonal at every step, without any
// projection.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <orthornn/orthornn.hpp>
using namespace orthornn;

double norm(const Tensor<double>& x) {
  double squares = 0;
  for (const double number : x) squares += number * number;
  return std::sqrt(squares);
}

int main() {
  constexpr Index n = 16;
  Transition<double> q(Cwy{.reflections = n, .init = Init::haar}, n);
  Tensor<double> v(q.parameter_shape());    // the reflection vectors, [L, N]
  Tensor<double> d_v(q.parameter_shape());  // and the gradient with respect to them

  q.initialize(/*seed=*/1, v);
  q.prepare(v);
  const Tensor<double> a = q.materialize();  // the goal; it has Q's determinant, (-1)^L

  q.initialize(/*seed=*/2, v);
  q.prepare(v);
  Tensor<double> h({3, n});  // three vectors, one in each row
  RandomStream random(/*seed=*/3, RandomPurpose::initialization);
  for (double& x : h) x = random.normal();
  std::cout << "norm of h:   " << norm(h) << "\n";
  q.apply(h);  // h <- Q h
  std::cout << "norm of Q h: " << norm(h) << "\n\n";
  q.apply_transpose(h);  // h <- Q^T h, and so the first h again

  std::cout << "step  |Q - A|  max |I - Q^T Q|\n" << std::scientific << std::setprecision(1);
  double distance = 0, error = 0;
  for (int step = 0; step <= 500; ++step) {
    q.prepare(v);
    Tensor<double> d_q = q.materialize();
    error = std::max(error, orthogonality_error(d_q));
    for (Index i = 0; i < d_q.size(); ++i) d_q.data()[i] -= a.data()[i];  // the gradient of |Q - A|^2 / 2
    distance = norm(d_q);
    if (step % 100 == 0) std::cout << std::setw(4) << step << "  " << distance << "  " << error << "\n";
    q.backward(d_q, d_v);
    for (Index i = 0; i < v.size(); ++i) v.data()[i] -= d_v.data()[i];  // a learning rate of 1
  }
  return distance < 1e-5 && error < 1e-13 ? 0 : 1;
}

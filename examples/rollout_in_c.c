/* A recurrence h_t = tanh(Q h_{t-1} + a_t) in C: Q from reflection vectors, all states, the gradient of Q. */
#include <math.h>
#include <orthornn/c_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 50, B = 4, N = 16, L = 8 };

/* Leaves the program where a call failed. */
static void check(orthornn_status status) {
  if (status == ORTHORNN_OK) return;
  fprintf(stderr, "error %d: %s\n", (int)status, orthornn_last_message());
  exit(1);
}

static double v[L * N], q[N * N], d_q[N * N], inputs[T * B * N], first[B * N], outputs[T * B * N],
    last[B * N];
static double d_inputs[T * B * N], d_first[B * N];

int main(void) {
  const orthornn_transition cwy = {ORTHORNN_F64, ORTHORNN_CWY, N, L, 0};
  const orthornn_rollout rollout = {ORTHORNN_F64, ORTHORNN_TANH, ORTHORNN_PRECISION_FP32, 0, T, B, N};
  double error = 0;
  void *workspace;
  int64_t bytes[3], most;
  int i, j, k;

  /* One workspace for all operations: as large as the largest one needs. */
  check(orthornn_transition_forward_workspace(NULL, &cwy, &bytes[0]));
  check(orthornn_rollout_forward_workspace(NULL, &rollout, &bytes[1]));
  check(orthornn_rollout_backward_workspace(NULL, &rollout, &bytes[2]));
  for (most = 0, i = 0; i < 3; ++i) most = bytes[i] > most ? bytes[i] : most;
  workspace = malloc((size_t)most);
  if (workspace == NULL) return 1;

  check(orthornn_transition_initialize(&cwy, ORTHORNN_INIT_HENAFF, 1, v));
  check(orthornn_transition_forward(NULL, &cwy, v, q, workspace, most));
  for (i = 0; i < T * B * N; ++i) inputs[i] = 0.1 * sin(i);
  check(orthornn_rollout_forward(NULL, &rollout, q, NULL, NULL, inputs, first, outputs, last, NULL, workspace,
                                 most));
  /* The gradient of |h_T|^2 / 2 is h_T. */
  check(orthornn_rollout_backward(NULL, &rollout, q, NULL, first, outputs, NULL, NULL, last, d_inputs,
                                  d_first, d_q, NULL, workspace, most));
  free(workspace);
  for (i = 0; i < N; ++i) {
    for (j = 0; j < N; ++j) {
      double sum = i == j ? -1 : 0;
      for (k = 0; k < N; ++k) sum += q[k * N + i] * q[k * N + j];
      error = fmax(error, fabs(sum));
    }
  }
  printf("orthornn %s: |I - Q^T Q| is %.1e, h_T[0] %.4f, dQ[0] %.4f\n", orthornn_version(), error, last[0],
         d_q[0]);
  return error < 1e-14 && isfinite(d_q[0]) ? 0 : 1;
}

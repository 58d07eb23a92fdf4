// The program `orthornn`: a subcommand is a file in commands/, and `bench` is the folder bench/.

#include "commands/program.hpp"

int main(int argc, char** argv) {
  using namespace orthornn::program;
  return run(argc, argv,
             {add_train, add_evaluate, add_predict, add_translate, add_inspect, add_convert, add_bench,
              add_report, add_runs});
}

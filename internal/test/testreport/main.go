// Command testreport turns the events of go test -json into a short report.
//
//	go test -json ./... | go run ./internal/test/testreport [-conformance FILE]
//
// It prints a line for each package as it ends and the output of what failed,
// then the lines that the conformance suite wrote to FILE, which tests took 10
// seconds or longer, what the tests that failed said themselves once more, and last
// one line with the totals. It fails if a test failed or was skipped, if a package
// did not build, if nothing ran at all, or if FILE was asked for and is empty: a test
// that silently does not run protects nobody.
//
// It does not run tests, and go test's own exit status still counts (set -o
// pipefail).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

func main() {
	conformance := flag.String("conformance", "", "`file` with the lines the conformance suite wrote")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *conformance)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run writes the report and tells whether all is well; the error is of the
// reporting itself.
func run(in io.Reader, out io.Writer, conformance string) (ok bool, err error) {
	r := newReport(out)
	if err := r.read(in); err != nil {
		return false, err
	}
	if conformance != "" {
		lines, err := conformanceLines(conformance)
		if err != nil {
			return false, err
		}
		if len(lines) == 0 {
			r.printf("conformance: no suite reported its count\n")
			r.broken = true
		}
		for _, l := range lines {
			r.printf("%s\n", l)
		}
	}
	return r.close()
}

// conformanceLines returns the file's lines, sorted, each once: several
// packages may run the suite on the same target.
func conformanceLines(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

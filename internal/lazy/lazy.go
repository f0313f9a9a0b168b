// Package lazy has values that are made when they are first used. A command line
// starts for one command, which needs few of a program's patterns and tables: what
// packages make at start, every command waits for.
package lazy

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp returns a function that compiles expr when it is first called. In the
// program of a test it is compiled at once: so a mistake is found in every pattern,
// whether or not a test uses it.
func Regexp(expr string) func() *regexp.Regexp {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
	if strings.HasSuffix(os.Args[0], ".test") {
		compiled()
	}
	return compiled
}

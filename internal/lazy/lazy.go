// Package lazy has values that are made when they are first used. A command line
// starts for one command, which needs few of a program's patterns and tables: what
// packages make at start, every command waits for.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles expr when it is first called.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

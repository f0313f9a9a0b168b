// Package errtest says in tests what an error is to be. It is for tests alone.
package errtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// None ends a test in which something failed.
func None(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Kind fails a test in which an error is of another kind, as errors.Is has it, or
// does not say what it is to say.
func Kind(t testing.TB, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want kind %v", err, kind)
	}
	for _, text := range says {
		if !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}

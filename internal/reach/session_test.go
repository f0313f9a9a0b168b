package reach

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session"
)

func TestMatch(t *testing.T) {
	list := []session.Status{{ID: "abc"}, {ID: "abcd"}, {ID: "abx"}, {ID: "q"}}
	for id, want := range map[string]string{"abc": "abc", "abcd": "abcd", "abx": "abx", "q": "q", "ab": "", "z": "", "abcde": ""} {
		got, err := match(list, id, "main")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	if _, err := match(list, "ab", "main"); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "abc, abcd, abx") {
		t.Errorf("%v", err)
	}
	if _, err := match(list, "z", "main"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

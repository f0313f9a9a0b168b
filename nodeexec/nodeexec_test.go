package nodeexec

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

func TestNone(t *testing.T) {
	for name, text := range map[string]string{"": "no node is paired", "builder": `cannot use node "builder": no node is paired`} {
		ex, full, err := None{}.Select(t.Context(), name)
		if ex != nil || full != "" || !errors.Is(err, corral.ErrUnavailable) || err.Error() != text {
			t.Errorf("Select(%q): %v, %q, %v", name, ex, full, err)
		}
		if hint := corral.Hint(err); !strings.Contains(hint, "start the gateway with --nodes ADDRESS:PORT") || !strings.Contains(hint, "use host sandbox or gateway") {
			t.Errorf("the hint %q does not say what to do instead", hint)
		}
	}
	if _, err := (None{}).Attach(t.Context(), "job"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("Attach: %v", err)
	}
}

package sessions

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
)

// Bytes that JSON cannot have are refused: the session would get others in their place.
func TestTextIsUTF8(t *testing.T) {
	file := filepath.Join(t.TempDir(), "input")
	for text, ok := range map[string]bool{"ä\x00\n": true, "a\xff": false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, arg := range []string{text, "-"} {
			got, err := onlyText(&app.App{Stdin: f}, []string{arg})
			if ok && (err != nil || got != text) || !ok && !errors.Is(err, corral.ErrInvalid) {
				t.Errorf("%q as %q: %q, %v", text, arg, got, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

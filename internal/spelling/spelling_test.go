package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"default", "main", "chat-1", "one"}
	for word, want := range map[string]string{
		"oen": "one", "defualt": "default", "MAIN": "main", "chat-2": "chat-1", "maim": "main",
		"": "", "other": "", "telegram": "", strings.Repeat("x", 1000): "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
}

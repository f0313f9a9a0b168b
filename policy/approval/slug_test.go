package approval

import "testing"

func TestIsSlug(t *testing.T) {
	for range 100 {
		if s := newSlug(func(string) bool { return false }); !isSlug(s) {
			t.Errorf("%q is made, and none", s)
		}
	}
	for _, s := range []string{"", "calm-otter", "calm-otter-", "calm-otter-x1", "calm-nobody-12", "nobody-otter-12", "calm-otter-12-3", "calm-otter-1234567890", "../otter-12"} {
		if isSlug(s) {
			t.Errorf("%q is one", s)
		}
	}
}

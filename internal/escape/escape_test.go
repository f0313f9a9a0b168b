package escape_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/escape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func line(t testing.TB, r escape.Result) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func TestParseResults(t *testing.T) {
	good := escape.Result{ID: "cap/chown", Tries: "gives a file away", Why: "CAP_CHOWN", Outcome: escape.Held, Detail: "no"}
	for _, tc := range []struct {
		name, out string
		results   int
		fails     string
	}{
		{"nothing", "", 0, ""},
		{"two", line(t, good) + line(t, escape.Result{ID: "x", Outcome: escape.Inside}), 2, ""},
		{"cut", line(t, good)[:20], 0, "no result"},
		{"not JSON", "hello\n", 0, "no result"},
		{"another outcome", `{"id":"x","outcome":"fine"}` + "\n", 0, "outcome"},
		{"no outcome", `{"id":"x"}` + "\n", 0, "outcome"},
		{"long text", line(t, escape.Result{ID: "x", Outcome: escape.Held, Detail: strings.Repeat("x", 301)}), 0, "more than fits"},
		{"many", strings.Repeat(line(t, good), 501), 0, "more than fits"},
		{"much", strings.Repeat("x", 300<<10), 0, "bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := escape.ParseResults([]byte(tc.out))
			if tc.fails == "" && (err != nil || len(got) != tc.results) {
				t.Errorf("%d results, %v", len(got), err)
			}
			if tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)) {
				t.Errorf("the error is %v, want one about %q", err, tc.fails)
			}
		})
	}
}

// Output of a sandbox is hostile.
func FuzzParseResults(f *testing.F) {
	f.Add([]byte(line(f, escape.Result{ID: "cap/chown", Outcome: escape.Held})))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"id":1}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		results, err := escape.ParseResults(out)
		if err != nil && results != nil {
			t.Error("results with an error")
		}
		for _, r := range results {
			if r.Outcome == "" {
				t.Errorf("no outcome: %+v", r)
			}
		}
	})
}

func TestSecret(t *testing.T) {
	secret, sum := escape.NewSecret()
	other, _ := escape.NewSecret()
	site := escape.Site{Sum: sum}
	if !site.Is([]byte(secret)) || !site.Is([]byte(secret+"\n")) || !site.Is([]byte(secret+"\x00\x00")) {
		t.Error("the secret is not known by its sum")
	}
	for _, s := range []string{"", other, secret[1:], sum} {
		if site.Is([]byte(s)) {
			t.Errorf("%q is taken for the secret", s)
		}
	}
	if b, err := json.Marshal(site); err != nil || strings.Contains(string(b), secret) {
		t.Errorf("the site tells the secret: %s, %v", b, err)
	}
}

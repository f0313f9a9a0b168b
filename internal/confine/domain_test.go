package confine

import (
	"reflect"
	"strings"
	"testing"
)

var domains = []Domain{
	{},
	{AnyProgram: true, AnyFile: true, Required: true},
	{Programs: []string{"/bin/a", "/usr/lib/x/"}, Loaders: []string{"/lib/ld"}, Writable: []string{"/srv"}, Hint: "a rule"},
	{AnyProgram: true, Writable: []string{"/tmp"}},
	{Programs: []string{"/" + strings.Repeat("é", 2000)}, AnyFile: true},
}

func TestEncoding(t *testing.T) {
	for _, d := range domains {
		b := d.Append(nil)
		got, err := Parse(b)
		if err != nil || got.Hint != d.Hint || !reflect.DeepEqual(*got, d) {
			t.Errorf("%+v became %+v, %v", d, got, err)
		}
	}
	for name, b := range map[string][]byte{
		"empty": {}, "unknown flag": {8}, "unknown list": {0, 4, 1, '/'}, "too long": {0, 0, 5, '/'}, "relative": {0, 0, 1, 'a'}, "NUL": {0, 2, 2, '/', 0},
		"endless number": {0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1},
	} {
		if d, err := Parse(b); err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestEnforcedNumber(t *testing.T) {
	for n := range uint64(8) {
		if got := FromNumber(n).Number(); got != n {
			t.Errorf("%d became %d", n, got)
		}
	}
	if FromNumber(0) != nil {
		t.Error("nothing in force is something")
	}
}

func TestLimits(t *testing.T) {
	if (*Domain)(nil).Limits() || (&Domain{AnyProgram: true, AnyFile: true}).Limits() {
		t.Error("a domain without limits limits")
	}
	if !(&Domain{AnyProgram: true}).Limits() || !(&Domain{AnyFile: true}).Limits() || !new(Domain).Limits() {
		t.Error("a domain with limits does not limit")
	}
}

func FuzzParse(f *testing.F) {
	for _, d := range domains {
		f.Add(d.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			return
		}
		if again, err := Parse(d.Append(nil)); err != nil || !reflect.DeepEqual(d, again) {
			t.Errorf("%+v became %+v, %v", d, again, err)
		}
	})
}

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

func TestParseCaller(t *testing.T) {
	for _, tc := range []struct {
		sender, model string
		want          Caller
		text          string
	}{
		{"", "", Caller{}, ""},
		{"  ", " gpt-5.2 ", Caller{Model: "gpt-5.2"}, ""},
		{"telegram:123", "", Caller{Sender: Sender{Provider: "telegram", ID: "123"}}, "telegram:123"},
		{"matrix: @me:example.org", "", Caller{Sender: Sender{Provider: "matrix", ID: "@me:example.org"}}, "matrix:@me:example.org"},
	} {
		got, err := ParseCaller(tc.sender, tc.model)
		if err != nil || got != tc.want || got.Sender.String() != tc.text {
			t.Errorf("%q, %q: %+v (%s), %v", tc.sender, tc.model, got, got.Sender, err)
		}
		if back := CallerFrom(WithCaller(t.Context(), got)); back != got {
			t.Errorf("%+v came back as %+v", got, back)
		}
	}
	for _, tc := range [][2]string{{"telegram", ""}, {":1", ""}, {"telegram:", ""}, {"a:" + strings.Repeat("b", maxSender), ""}, {"", strings.Repeat("m", maxModel+1)}} {
		if c, err := ParseCaller(tc[0], tc[1]); !errors.Is(err, corral.ErrInvalid) || c != (Caller{}) {
			t.Errorf("%.20q, %.20q: %+v, %v", tc[0], tc[1], c, err)
		}
	}
	if c := CallerFrom(t.Context()); c != (Caller{}) {
		t.Errorf("%+v of nobody", c)
	}
}

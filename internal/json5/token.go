package json5

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// key reads a key of an object: a string or a name.
func (p *parser) key() (string, error) {
	switch {
	case p.is('"'), p.is('\''):
		return p.text()
	case p.is(','):
		return "", errors.New("',' where a key is expected")
	}
	return p.identifier()
}

// identifier reads an ECMAScript 5.1 IdentifierName.
func (p *parser) identifier() (string, error) {
	var name strings.Builder
	for {
		at := p.at
		r, n := p.rune()
		if n == 0 {
			break
		}
		p.at += n
		if r == '\\' {
			if !p.is('u') {
				p.at = at
				return "", errors.New(`'\' in a name, and no \uXXXX`)
			}
			p.at++
			code, err := p.hex(4)
			if err != nil {
				return "", err
			}
			if r = code; !inName(r, name.Len() == 0) {
				p.at = at
				return "", fmt.Errorf("%U cannot be in a name here; use quotes", r)
			}
		}
		if !inName(r, name.Len() == 0) {
			p.at = at
			break
		}
		name.WriteRune(r)
	}
	if name.Len() == 0 {
		return "", fmt.Errorf("%s where a key or a value is expected", p.here())
	}
	return name.String(), nil
}

func inName(r rune, first bool) bool {
	switch {
	case r == '$', r == '_', unicode.IsLetter(r), unicode.Is(unicode.Nl, r):
		return true
	case first:
		return false
	}
	return unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc) || r == '\u200c' || r == '\u200d'
}

// text reads a string in quotes.
func (p *parser) text() (string, error) {
	start := p.at
	quote := rune(p.data[p.at])
	p.at++
	var s strings.Builder
	for {
		r, n := p.rune()
		switch {
		case n == 0:
			p.at = start
			return "", errors.New("the string that begins here has no end")
		case r == quote:
			p.at += n
			return s.String(), nil
		case r == '\n' || r == '\r':
			return "", errors.New(`the line ends in a string; write \n, or \ before the end of the line`)
		case r == '\\':
			if err := p.escape(&s); err != nil {
				return "", err
			}
		default:
			p.at += n
			s.WriteRune(r)
		}
	}
}

var escapes = map[rune]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// escape reads an escape sequence of a string.
func (p *parser) escape(s *strings.Builder) error {
	at := p.at
	p.at++
	r, n := p.rune()
	p.at += n
	switch {
	case n == 0:
		return nil // the caller reports the missing end
	case r == '\r' && p.is('\n'):
		p.at++
	case isLineEnd(r): // the string goes on in the next line
	case r == 'x':
		code, err := p.hex(2)
		s.WriteRune(code)
		return err
	case r == 'u':
		return p.unicode(s, at)
	case r >= '0' && r <= '9':
		if next, _ := p.rune(); r != '0' || next >= '0' && next <= '9' {
			p.at = at
			return errors.New(`a backslash before a digit; write \xXX or \uXXXX`)
		}
		s.WriteByte(0)
	default:
		if code, ok := escapes[r]; ok {
			r = code
		}
		s.WriteRune(r)
	}
	return nil
}

// unicode reads the digits after \u, and the other half of a surrogate pair.
func (p *parser) unicode(s *strings.Builder, at int) error {
	code, err := p.hex(4)
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(code) {
		low := rune(0)
		if strings.HasPrefix(string(p.data[p.at:min(p.at+2, len(p.data))]), `\u`) {
			p.at += 2
			if low, err = p.hex(4); err != nil {
				return err
			}
		}
		if code = utf16.DecodeRune(code, low); code == utf8.RuneError {
			p.at = at
			return errors.New("half of a surrogate pair, which is no character")
		}
	}
	s.WriteRune(code)
	return nil
}

func (p *parser) hex(digits int) (rune, error) {
	end := p.at + digits
	if end > len(p.data) {
		return 0, fmt.Errorf("%d hexadecimal digits are expected", digits)
	}
	n, err := strconv.ParseUint(string(p.data[p.at:end]), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%d hexadecimal digits are expected", digits)
	}
	p.at = end
	return rune(n), nil
}

// number reads a number, with its sign.
func (p *parser) number() (float64, error) {
	start := p.at
	sign := 1.0
	if p.is('+') || p.is('-') {
		if p.is('-') {
			sign = -1
		}
		p.at++
	}
	begin := p.at
	for p.at < len(p.data) && isNumeric(p.data[begin:], p.at-begin) {
		p.at++
	}
	literal := string(p.data[begin:p.at])
	f, err := parseNumber(literal)
	if r, n := p.rune(); err == nil && n > 0 && (inName(r, false) || r == '.') {
		err = errors.New("")
	}
	if err != nil {
		for r, n := p.rune(); n > 0 && (inName(r, false) || r == '.'); r, n = p.rune() {
			p.at += n
		}
		text := p.data[start:p.at]
		p.at = start
		if errors.Is(err, strconv.ErrRange) {
			return 0, fmt.Errorf("the number %s is too large", text)
		}
		return 0, fmt.Errorf("%s is no number", text)
	}
	return sign * f, nil
}

// isNumeric reports whether byte i continues the number at the beginning of text.
func isNumeric(text []byte, i int) bool {
	switch c := text[i]; {
	case c >= '0' && c <= '9', c == '.', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return true
	case (c == '+' || c == '-') && i > 0: // of an exponent
		hex := text[0] == '0' && (text[1] == 'x' || text[1] == 'X') // i is at least 1
		return !hex && (text[i-1] == 'e' || text[i-1] == 'E')
	}
	return false
}

func special(name string) float64 {
	if name == "NaN" {
		return math.NaN()
	}
	return math.Inf(1)
}

var errNumber = errors.New("no number")

// parseNumber reads a number without its sign. strconv accepts more than JSON5, so the
// text is checked first.
func parseNumber(s string) (float64, error) {
	if s == "Infinity" || s == "NaN" {
		return special(s), nil
	}
	if digits, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		if digits == "" || strings.Trim(digits, "0123456789abcdef") != "" {
			return 0, errNumber
		}
		return strconv.ParseFloat("0x"+digits+"p0", 64)
	}
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	switch {
	case whole+fraction == "" || !allDigits(whole+fraction):
		return 0, errNumber
	case len(whole) > 1 && whole[0] == '0': // octal in old languages
		return 0, errNumber
	case scientific && !allDigits(strings.TrimPrefix(strings.TrimPrefix(exponent, "+"), "-")):
		return 0, errNumber
	case scientific && strings.Trim(exponent, "+-") == "":
		return 0, errNumber
	}
	return strconv.ParseFloat(s, 64)
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

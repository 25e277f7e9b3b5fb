package varint

import (
	"bytes"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	b := AppendUint(nil, uint64(300))
	b = AppendInt(b, -5)
	b = AppendBytes(b, "name")
	b = AppendBytes(b, []byte(nil))
	b = AppendUint(AppendUint(b, Bit(true)), Bit(false))
	r := NewReader(b)
	if v := r.Uint16(); v != 300 {
		t.Errorf("Uint16 = %d", v)
	}
	if v := r.Int(); v != -5 {
		t.Errorf("Int = %d", v)
	}
	if s := r.String(); s != "name" {
		t.Errorf("String = %q", s)
	}
	if b := r.Bytes(); b != nil {
		t.Errorf("Bytes = %v", b)
	}
	if yes, no := r.Uint(1), r.Uint(1); yes != 1 || no != 0 {
		t.Errorf("bits = %d, %d", yes, no)
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

func TestMalformed(t *testing.T) {
	for name, read := range map[string]func(*Reader){
		"cut":       func(r *Reader) { r.Fixed(make([]byte, 9)) },
		"range":     func(r *Reader) { r.Uint8() },
		"long":      func(r *Reader) { r.Bytes() },
		"left over": func(*Reader) {},
	} {
		r := NewReader(AppendUint(nil, uint64(1<<20)))
		if read(r); r.Done() == nil {
			t.Errorf("%s: no error", name)
		}
		if r.Uint64() != 0 || r.Bytes() != nil {
			t.Errorf("%s: reads after an error give values", name)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{3, 'a', 'b', 'c', 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		got := r.Bytes()
		if r.Err() == nil && !bytes.Contains(b, got) {
			t.Errorf("%x is not part of %x", got, b)
		}
		r.Uint64()
		r.Int()
		_ = r.Done()
	})
}

package posix

import "testing"

func TestIDs(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "0": "0", "1000-1999,0,5": "0,5,1000-1999", "1-3,2-9,10": "1-10", "0-4294967295,7": "0-4294967295", "5-5": "5",
	} {
		got, err := ParseIDs(text)
		if err != nil || FormatIDs(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{",", "a", "-", "1-", "2-1", "4294967296", "-1", "1,,2", " 1"} {
		if got, err := ParseIDs(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestAuthority(t *testing.T) {
	uids, _ := ParseIDs("5,1000-1999")
	a := &Authority{UIDs: uids, GIDs: uids[:1]}
	for uid, want := range map[uint32]bool{0: false, 4: false, 5: true, 6: false, 999: false, 1000: true, 1999: true, 2000: false, 1<<32 - 1: false} {
		if a.MayUser(uid) != want {
			t.Errorf("user %d", uid)
		}
	}
	if a.MayGroup(1000) || !a.MayGroup(5) || a.Root() {
		t.Error("groups are apart from users, and root is one of them")
	}
	var all *Authority
	if !all.Root() || !all.MayGroup(7) || !Everybody().Root() || !Everybody().MayUser(1<<32-1) {
		t.Error("nil and Everybody bound nothing")
	}
}

func TestIsNarrow(t *testing.T) {
	all := Everybody().UIDs
	for text, want := range map[string]bool{
		"": true, "0": true, "1000": true, "0-999": true, "2-4294967295": true, "1-5,7-4294967295": true, "1-4294967294": true,
		"1-4294967295": false, "0-4294967295": false, "1-5,6-4294967295": false,
	} {
		ids, err := ParseIDs(text)
		for _, a := range []*Authority{{UIDs: ids, GIDs: all}, {UIDs: all, GIDs: ids}} {
			if err != nil || a.IsNarrow() != want {
				t.Errorf("%q: %v, %v", text, a.IsNarrow(), err)
			}
		}
	}
	if a := (&Authority{UIDs: []IDs{{1, 5}, {6, 1<<32 - 1}}, GIDs: all}); a.IsNarrow() {
		t.Error("adjacent ranges have all users")
	}
	if (*Authority)(nil).IsNarrow() {
		t.Error("nil bounds nobody")
	}
}

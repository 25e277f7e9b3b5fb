package posix

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// IDs are the user or group numbers First to Last, both included.
type IDs struct{ First, Last uint32 }

// Authority is the set of users and groups for which a machine may act: the users of its programs. The
// machine's own kernel checks the rights of each user; an Authority limits the rights of the whole machine,
// independently of its kernel. An Authority is immutable. A nil *Authority belongs to the cluster's own
// processes, and has no limits.
type Authority struct {
	UIDs, GIDs []IDs // sorted, without overlaps
}

// Everybody returns an Authority for all users and groups, including root.
func Everybody() *Authority {
	all := []IDs{{0, 1<<32 - 1}}
	return &Authority{UIDs: all, GIDs: all}
}

// NobodyID is the user and the group of Nobody.
const NobodyID = 65534

// Nobody returns the credentials that replace root for a machine that may not act for root (root squash).
func Nobody() Cred { return Cred{UID: NobodyID, GID: NobodyID} }

// MaxRanges bounds the ranges of users, and those of groups, in an Authority.
const MaxRanges = 256

// Validate reports an error of an Authority that was not made by ParseIDs.
func (a *Authority) Validate() error {
	if a == nil {
		return nil
	}
	for _, ranges := range [][]IDs{a.UIDs, a.GIDs} {
		if len(ranges) > MaxRanges {
			return fmt.Errorf("authority: %d ranges of ids: use at most %d", len(ranges), MaxRanges)
		}
		for i, r := range ranges {
			if r.First > r.Last || i > 0 && r.First <= ranges[i-1].Last {
				return fmt.Errorf("authority: ranges %s: sort them, and keep them apart", FormatIDs(ranges))
			}
		}
	}
	return nil
}

// Root reports whether a may act for root, and so do everything with files.
func (a *Authority) Root() bool { return a == nil || within(a.UIDs, 0) }

// MayUser reports whether a may act for a user.
func (a *Authority) MayUser(uid uint32) bool { return a == nil || within(a.UIDs, uid) }

// MayGroup reports whether a may act for members of a group.
func (a *Authority) MayGroup(gid uint32) bool { return a == nil || within(a.GIDs, gid) }

// IsNarrow reports whether a permits only some users or groups: it lacks a user or a group other than 0.
func (a *Authority) IsNarrow() bool { return a != nil && (lacksAny(a.UIDs) || lacksAny(a.GIDs)) }

// lacksAny reports whether ranges lack a number above 0.
func lacksAny(ranges []IDs) bool {
	next := uint64(1) // the least number above 0 that is not in the ranges so far
	for _, r := range ranges {
		if uint64(r.First) > next {
			break
		}
		next = max(next, uint64(r.Last)+1)
	}
	return next <= 1<<32-1
}

func within(ranges []IDs, id uint32) bool {
	_, found := slices.BinarySearchFunc(ranges, id, func(r IDs, id uint32) int {
		switch {
		case r.Last < id:
			return -1
		case r.First > id:
			return 1
		}
		return 0
	})
	return found
}

// ParseIDs reads ranges such as "0,100-199,1000", in any order. The result is sorted and has no
// overlaps. Empty text gives no ranges.
func ParseIDs(text string) ([]IDs, error) {
	if text == "" {
		return nil, nil
	}
	var ranges []IDs
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || from > to {
			return nil, fmt.Errorf("%q: give numbers and ranges such as 0,100-199,1000", text)
		}
		ranges = append(ranges, IDs{uint32(from), uint32(to)})
	}
	slices.SortFunc(ranges, func(a, b IDs) int { return cmp.Compare(a.First, b.First) })
	apart := ranges[:1]
	for _, r := range ranges[1:] {
		if last := &apart[len(apart)-1]; uint64(r.First) <= uint64(last.Last)+1 {
			last.Last = max(last.Last, r.Last)
		} else {
			apart = append(apart, r)
		}
	}
	if len(apart) > MaxRanges {
		return nil, fmt.Errorf("%d ranges of ids: use at most %d", len(apart), MaxRanges)
	}
	return apart, nil
}

// FormatIDs returns the text that ParseIDs reads.
func FormatIDs(ranges []IDs) string {
	var parts []string
	for _, r := range ranges {
		if r.First == r.Last {
			parts = append(parts, strconv.FormatUint(uint64(r.First), 10))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return strings.Join(parts, ",")
}

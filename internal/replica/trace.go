package replica

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/order"
)

// UpdateIn returns the update in the payload of a delivery, for traces; found is false if there is none.
// executed means that the delivery executes the update; otherwise it begins an update of several partitions.
func UpdateIn(payload []byte) (q ask.Request, executed, found bool) {
	e, err := order.DecodeEntry(payload)
	if err != nil {
		return q, false, false
	}
	if e.Kind == entryRequest {
		q, _, err = decodeRequest(e.Body)
		return q, true, err == nil && q.Kind == ask.Update
	}
	request := cross.RequestIn(&e)
	if request == nil {
		return q, false, false
	}
	q, err = ask.DecodeRequest(request)
	return q, false, err == nil
}

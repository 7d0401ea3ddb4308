"""How AMQP 0-9-1 lays out what we write and read by ourselves (its sections 2.3.5 and 4.2)."""

METHOD, HEADER, BODY = 1, 2, 3  # kinds of frames
BASIC = 60  # the class of all that carries messages
END = 0xCE
HEAD, OVERHEAD = 7, 8  # bytes of a frame before its payload, and around it
FIXED = 14  # bytes of a header frame's payload before the properties

# Which properties there are, in the order of their values.
CONTENT_TYPE, CONTENT_ENCODING, HEADERS = 1 << 15, 1 << 14, 1 << 13
DELIVERY_MODE, PRIORITY = 1 << 12, 1 << 11
CORRELATION_ID, REPLY_TO, EXPIRATION, MESSAGE_ID = 1 << 10, 1 << 9, 1 << 8, 1 << 7
TIMESTAMP, TYPE, USER_ID, APP_ID, CLUSTER_ID = 1 << 6, 1 << 5, 1 << 4, 1 << 3, 1 << 2

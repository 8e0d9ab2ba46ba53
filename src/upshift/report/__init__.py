"""Records → what people read and programs parse."""
